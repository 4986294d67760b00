package integration

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/evictd/evictd/pkg/evict"
)

// forced is an eviction or delete request, as the proxy saw it.
type forced struct {
	method, pod string
	options     metav1.DeleteOptions
}

// forcing records evictd's eviction and delete requests from now on.
func (s *scene) forcing() func() []forced {
	const triesPolicies = "evictd-doctor-no-pod" // the UID in the dry runs that the policies must refuse
	var mu sync.Mutex
	var all []forced
	s.proxy.instead(func(_ http.ResponseWriter, r *http.Request) bool {
		pod, isPod := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/"+s.namespace+"/pods/")
		if !isPod || r.Method != http.MethodDelete && !isEviction(r) {
			return false
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		seen := forced{method: r.Method, pod: strings.TrimSuffix(pod, "/eviction")}
		switch object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, runtime.Object(nil)); sent := object.(type) {
		case *policyv1.Eviction:
			seen.options = *sent.DeleteOptions
		case *metav1.DeleteOptions:
			seen.options = *sent
		default:
			s.t.Errorf("%s %s: %T, %v", r.Method, r.URL.Path, object, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if of := seen.options.Preconditions; of == nil || of.UID == nil || *of.UID != triesPolicies {
			all = append(all, seen)
		}
		return false
	})
	return func() []forced {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// event returns the text of the Event with the reason on a pod; "" when there is none.
func (w *world) event(ctx context.Context, pod, reason string) string {
	w.t.Helper()
	events, err := w.client.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason,
	})
	w.must(err)
	if len(events.Items) == 0 {
		return ""
	}
	if kind := events.Items[0].Type; kind != corev1.EventTypeWarning {
		w.t.Errorf("the Event %s is of type %s", reason, kind)
	}
	return events.Items[0].Message
}

// another creates a pod on another node that a budget of the app counts.
func (w *world) another(name, app string) {
	w.t.Helper()
	w.pod(name, 1)
	_, err := w.client.CoreV1().Pods(w.namespace).Patch(w.t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app":"`+app+`"}}}`), metav1.PatchOptions{})
	w.must(err)
}

// Every candidate is blocked by a budget as large as its application. The large pod is the
// first of the ranking and the only one of its application; the small one is one of three.
func TestBestEffortBypassesTheLeastViolatedBudget(t *testing.T) { //nolint:tparallel // the steps are of one node, one after the other
	t.Parallel()
	s := newScene(t)
	elsewhere := *s.world
	elsewhere.node = newWorld(t).node
	elsewhere.another("small-2", "small")
	elsewhere.another("small-3", "small")
	s.budgetOf("large-budget", "large", 1)
	s.budgetOf("small-budget", "small", 3)
	asked := s.forcing()

	refused := func(ctx context.Context) bool {
		return s.event(ctx, "large", "EvictionBlocked") != "" && s.event(ctx, "small", "EvictionBlocked") != ""
	}
	noVictim := func(t *testing.T, result string, want float64) {
		t.Helper()
		if s.terminating("large") || s.terminating("small") {
			t.Error("a pod is in flight")
		}
		if got := s.daemon.series("evictd_best_effort_total", "result", result); got != want {
			t.Errorf("best effort, %s: %v, want %v", result, got, want)
		}
	}
	for _, test := range []struct {
		name, config string
		free         int64
		done         func(context.Context) bool
		result       string
		want         float64
	}{
		{"respect, hard pressure", "disruptionBudgets: respect", 300, refused, "Deleted", 0},
		{"soft pressure", "disruptionBudgets: bestEffort\nevictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 100ms}", 800, refused, "Deleted", 0},
		{"dry run, hard pressure", "disruptionBudgets: bestEffort\ndryRun: true", 300, func(ctx context.Context) bool {
			return s.event(ctx, "small", "WouldBypassPDB") != ""
		}, "Deleted", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.host.free(8 << 10)
			s.must(s.client.CoreV1().Events(s.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
			s.daemon = startDaemon(t, s.host, s.node, s.link.address, s.proxy.ca.pem, s.token, usual+test.config+"\n")
			s.within("evictd is ready", s.ready)
			s.host.free(test.free)
			s.until("it was refused, or the dry run was reported", test.done)
			s.endure(2 * time.Second) // time for a victim
			noVictim(t, test.result, test.want)
		})
	}
	t.Run("hard pressure", func(t *testing.T) {
		s.host.free(8 << 10)
		s.daemon = startDaemon(t, s.host, s.node, s.link.address, s.proxy.ca.pem, s.token, usual+"disruptionBudgets: bestEffort\nevictionHardPodGracePeriod: 7\n")
		s.within("evictd is ready", s.ready)
		small, err := s.client.CoreV1().Pods(s.namespace).Get(t.Context(), "small", metav1.GetOptions{})
		s.must(err)
		s.pressed()
		s.within("the pressure is over and no pod is in flight", s.relieved)
		s.endure(2 * time.Second) // time for a second victim
		if got := s.hand.taken(); !slices.Equal(got, []string{"small"}) {
			t.Errorf("deleted %v, want the pod of the least violated budget alone", got)
		}
		all := asked()
		last := all[len(all)-1]
		if last.method != http.MethodDelete || last.pod != "small" || last.options.Preconditions == nil ||
			*last.options.Preconditions.UID != small.UID || *last.options.GracePeriodSeconds != 7 {
			t.Errorf("the last request: %+v", last)
		}
		if got := s.daemon.series("evictd_best_effort_total", "result", "Deleted"); got != 1 {
			t.Errorf("evictd_best_effort_total of deleted pods is %v, want 1", got)
		}
		if got := s.daemon.series("evictd_evictions_total", "outcome", "Deleted"); got != 1 {
			t.Errorf("evictd_evictions_total of deleted pods is %v, want 1", got)
		}
		s.until("the Event is there", func(ctx context.Context) bool { return s.event(ctx, "small", "BypassedPDB") != "" })
		if text := s.event(t.Context(), "small", "BypassedPDB"); !strings.Contains(text, "bypassing PodDisruptionBudget small-budget, which wants 3 healthy pods and has 3") {
			t.Errorf("the Event: %s", text)
		}
	})
}

// Evictd reads the figures of a budget that the disruption controller writes.
func TestBudgetIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pod("web", 100)
	w.budget("web", "web")
	got, err := evictorFor(t, unlimited()).Budget(t.Context(), w.namespace, "web")
	if want := (evict.Budget{Name: "web", Desired: 1, Healthy: 1}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := evictorFor(t, unlimited()).Budget(t.Context(), w.namespace, "absent"); !apierrors.IsNotFound(err) || !errors.Is(err, evict.ErrNoBudget) {
		t.Errorf("a budget that is not there: %v", err)
	}
}

// Only the overlay gives the right to delete, and only on the own node and within what an
// eviction could do.
func TestBestEffortOverlay(t *testing.T) {
	f := newFenced(t) // not parallel: account, role and policies are the cluster's
	f.confine()
	mine, theirs := f.podOn(f.near, "mine"), f.podOn(f.far, "theirs")
	f.budget("mine", "mine")
	evictor := evictorFor(t, f.here)
	deletes := func(pod *corev1.Pod) evict.Request {
		r := requestFor(pod)
		r.Delete = true
		return r
	}
	if got := evictor.Evict(t.Context(), deletes(mine)); got.Outcome != evict.Denied || !got.NoRight {
		t.Errorf("deleting without the overlay: %+v, want Denied for want of the right", got)
	}
	_, err := evictor.Budget(t.Context(), f.namespace, "mine")
	refused(t, "reading a budget without the overlay", err, "cannot get")
	const lacks, may = "the account lacks rights for it", "a pod may be deleted although its budget blocks it"
	const settings = "disruptionBudgets: bestEffort\n"
	f.says(settings, lacks, may, "the right to delete pods and to get poddisruptionbudgets is missing; apply deploy/overlays/best-effort")

	f.overlay("best-effort")
	f.mayDo("testdata/can-i-best-effort.golden", "poddisruptionbudgets.policy")
	dryRun := deletes(mine)
	dryRun.DryRun = true
	f.until("the API server has read the overlay's role", func(ctx context.Context) bool {
		return evictor.Evict(ctx, dryRun).Outcome == evict.WouldDelete
	})
	pods := f.as(f.here).CoreV1().Pods(f.namespace)
	f.until("the overlay's policy is in force", func(ctx context.Context) bool {
		denied := pods.Delete(ctx, "mine", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return denied != nil && strings.Contains(denied.Error(), "only by its UID")
	})
	f.says(settings, may, lacks, "")
	expect(t, evictor.Evict(t.Context(), deletes(theirs)), evict.Denied, `may delete only pods of that node`, "/theirs")
	expect(t, evictorFor(t, f.nowhere).Evict(t.Context(), deletes(mine)), evict.Denied, "token that names its node")
	atOnce := deletes(mine)
	atOnce.GraceSeconds = new(int64)
	expect(t, evictor.Evict(t.Context(), atOnce), evict.Denied, "not delete a pod at once")
	refused(t, "deleting without options", pods.Delete(t.Context(), "mine", metav1.DeleteOptions{}), "only by its UID")
	refused(t, "deleting a collection", pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}), "cannot deletecollection")
	_, err = f.as(f.here).PolicyV1().PodDisruptionBudgets(f.namespace).List(t.Context(), metav1.ListOptions{})
	refused(t, "listing budgets", err, "cannot list")
	if f.terminating("mine") || f.terminating("theirs") {
		t.Fatal("a pod is terminating")
	}
	if got, err := evictor.Budget(t.Context(), f.namespace, "mine"); err != nil || got.Desired != 1 {
		t.Errorf("reading a budget: %+v, %v", got, err)
	}
	request := requestFor(mine)
	expect(t, evictor.Evict(t.Context(), request), evict.BlockedByBudget)
	expect(t, evictor.Evict(t.Context(), deletes(mine)), evict.Deleted)
	if !f.terminating("mine") {
		t.Error("the pod is not terminating")
	}
	f.must(f.client.CoreV1().Pods(f.namespace).Delete(t.Context(), "theirs", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})) // others are not bound
}

// says runs evictd with the account's token and those settings: its log has one message,
// with the detail, and not the other.
func (f *fenced) says(settings, message, other, detail string) {
	f.t.Helper()
	token := filepath.Join(f.t.TempDir(), "token")
	f.must(os.WriteFile(token, []byte(f.here.BearerToken), 0o600))
	config := shared.RESTConfig()
	t, isTest := f.t.(*testing.T)
	if !isTest {
		f.t.Fatal("this needs a test")
	}
	d := startDaemon(t, newHost(t), f.near, strings.TrimPrefix(config.Host, "https://"), config.CAData, token, usual+settings)
	f.until("evictd says that "+message, func(context.Context) bool { return strings.Contains(d.log.String(), message) })
	if log := d.log.String(); !strings.Contains(log, detail) || strings.Contains(log, other) {
		f.t.Errorf("the log lacks %q, or has %q:\n%s", detail, other, log)
	}
}
