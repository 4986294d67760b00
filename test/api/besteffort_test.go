package api

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// Only the overlay gives the right to delete, and only on the own node and within what an
// eviction could do.
func TestBestEffortOverlay(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: account, role and policies are the cluster's
	f.Confine()
	mine, theirs := f.PodOn(f.Near, "mine"), f.PodOn(f.Far, "theirs")
	f.Budget("mine", "mine")
	evictor := evictdtest.Evictor(t, f.Here)
	deletes := func(pod *corev1.Pod) evict.Request {
		r := evictdtest.RequestFor(pod)
		r.Delete = true
		return r
	}
	if got := evictor.Evict(t.Context(), deletes(mine)); got.Outcome != evict.Denied || !got.NoRight {
		t.Errorf("deleting without the overlay: %+v, want Denied for want of the right", got)
	}
	_, err := evictor.Budget(t.Context(), f.Namespace, "mine")
	refused(t, "reading a budget without the overlay", err, "cannot get")
	e := doctor(f, f.Here, "disruptionBudgets: bestEffort\n")
	e.says("missing", "the right to delete pods", "right/delete pods")

	overlay(f.World, "best-effort")
	mayDo(f.World, "testdata/can-i-best-effort.golden", "poddisruptionbudgets.policy")
	dryRun := deletes(mine)
	dryRun.DryRun = true
	f.Until("the API server has read the overlay's role", func(ctx context.Context) bool {
		return evictor.Evict(ctx, dryRun).Outcome == evict.WouldDelete
	})
	pods := f.As(f.Here).CoreV1().Pods(f.Namespace)
	f.Until("the overlay's policy is in force", func(ctx context.Context) bool {
		denied := pods.Delete(ctx, "mine", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return denied != nil && strings.Contains(denied.Error(), "only by its UID")
	})
	e.says("ok", "granted", "right/delete pods")
	expect(t, evictor.Evict(t.Context(), deletes(theirs)), evict.Denied, `may delete only pods of that node`, "/theirs")
	expect(t, evictdtest.Evictor(t, f.Nowhere).Evict(t.Context(), deletes(mine)), evict.Denied, "token that names its node")
	atOnce := deletes(mine)
	atOnce.GraceSeconds = new(int64)
	expect(t, evictor.Evict(t.Context(), atOnce), evict.Denied, "not delete a pod at once")
	refused(t, "deleting without options", pods.Delete(t.Context(), "mine", metav1.DeleteOptions{}), "only by its UID")
	f.Allow("deletecollection", "pods") // which no overlay gives
	f.Until("the policy confines it too", func(ctx context.Context) bool {
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &theirs.UID}}
		err = pods.DeleteCollection(ctx, options, metav1.ListOptions{FieldSelector: "metadata.name=theirs"})
		return err != nil && strings.Contains(err.Error(), `may delete only pods of that node, and pod `+f.Namespace+"/theirs")
	})
	if f.Terminating("mine") || f.Terminating("theirs") {
		t.Fatal("a pod is terminating")
	}
	got, err := evictor.Budget(t.Context(), f.Namespace, "mine") // with the figures of the disruption controller
	if want := (evict.Budget{Name: "mine", Desired: 1, Healthy: 1}); err != nil || got != want {
		t.Errorf("reading a budget: %+v, %v; want %+v", got, err, want)
	}
	if got, err := evictor.Budget(t.Context(), f.Namespace, "absent"); err != nil || got != (evict.Budget{}) {
		t.Errorf("a budget that is not there: %+v, %v", got, err)
	}
	request := evictdtest.RequestFor(mine)
	expect(t, evictor.Evict(t.Context(), request), evict.BlockedByBudget)
	expect(t, evictor.Evict(t.Context(), deletes(mine)), evict.Deleted)
	if !f.Terminating("mine") {
		t.Error("the pod is not terminating")
	}
	f.Must(f.Client.CoreV1().Pods(f.Namespace).Delete(t.Context(), "theirs", evictdtest.AtOnce())) // others are not bound
}
