package api

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// What the doctor and the check send, with the policies and without any. The API server asks the
// policies before it looks for the pod and its UID, so they refuse also what could not be evicted.
// Without them an eviction of another node's pod ends at the UID, with 409: the pod would stay even if
// the request were no dry run.
func TestTheCheckOfThePoliciesChangesNothing(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: account, role and policies are the cluster's
	theirs := f.PodOn(f.Far, "theirs")
	e := doctor(f, f.Here, "")
	log := audit.Log{Path: evictdtest.Cluster().AuditLog()}
	for _, step := range []struct {
		name  string
		state checks.State
		found string
		codes map[int]bool // of the evictions of another node's pod, and of no pod
	}{
		{"without the policies", checks.Missing, "not in force", map[int]bool{http.StatusConflict: true, http.StatusNotFound: true}},
		{"with the policies", checks.OK, "in force", map[int]bool{http.StatusForbidden: true}},
	} {
		if step.state == checks.OK {
			f.Confine()
		}
		e.says(step.state, step.found, "policy/evictd-evicts-on-own-node", "policy/evictd-on-own-node", "policy/evictd-events-of-own-node")
		f.Must(log.Skip())
		e.lines(t.Context())
		codes, count := map[int]bool{}, 0
		f.Until("the audit log has both evictions", func(context.Context) bool {
			events, err := log.Next()
			f.Must(err)
			for i := range events {
				if !events[i].Evicts() || events[i].User.Username != evictdtest.AccountUser {
					continue
				}
				codes[events[i].Response.Code] = true
				count++
				if request := string(events[i].Request); !strings.Contains(request, `"dryRun":["All"]`) || !strings.Contains(request, `"uid":"evictd-doctor-no-pod"`) {
					t.Errorf("%s: no dry run, or the UID of a pod: %s", step.name, request)
				}
			}
			return count >= 2
		})
		if !maps.Equal(codes, step.codes) {
			t.Errorf("%s: the evictions were answered by %v, want %v", step.name, codes, step.codes)
		}
	}
	now, err := f.Client.CoreV1().Pods(f.Namespace).Get(t.Context(), theirs.Name, metav1.GetOptions{})
	f.Must(err)
	if now.UID != theirs.UID || now.DeletionTimestamp != nil || f.Terminating("probe") {
		t.Errorf("a pod of the far node is terminating: %s, %v", now.UID, now.DeletionTimestamp)
	}
	events, err := f.Client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	f.Must(err)
	for i := range events.Items {
		if strings.HasPrefix(events.Items[i].Name, "evictd-doctor-") {
			t.Errorf("the dry run wrote an Event: %+v", events.Items[i])
		}
	}
}
