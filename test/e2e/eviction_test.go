//go:build e2e || e2e_all

package e2e

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// A pod uses more than its request and the pods' memory is short: evictd asks the API server to evict
// it, its Deployment replaces it, and evictd sees its end.
func TestDeploymentOverItsRequestIsEvictedAndReplaced(t *testing.T) {
	s := newScene(t, false)
	greedy := deployWorker(s, node.Workload{Name: "greedy", UsesMiB: 1000, AsksMiB: 50})
	greedy.works()
	d := s.gone(&greedy.Pod)
	if d.Signal != node.PodMemory || d.Verb != "Acted" || d.Attempts[0].Outcome != "Evicted" {
		t.Errorf("the decision: %+v", d)
	}
	if replacement := greedy.replacement(); replacement.UID == greedy.UID {
		t.Error("the pod was not replaced")
	}
	untilEndIsSeen(s, &greedy.Pod)
	s.wantVictims(&greedy.Pod)
}

// The pod that would be evicted first has a budget that allows nothing: the API server refuses its
// eviction, it stays, and the next one goes. Whether one decision requests both or two depends on how
// fast the API server answers.
func TestBudgetThatAllowsNothingKeepsItsPodAndTheNextGoes(t *testing.T) {
	s := newScene(t, false)
	guarded := deployWorker(s, node.Workload{Name: "guarded", UsesMiB: 500, AsksMiB: 10})
	s.must(live.Budget(t.Context(), s.namespace, "guarded", 1))
	next := deployWorker(s, node.Workload{Name: "next", UsesMiB: 450, AsksMiB: 10})
	// One after the other: the pod with the budget is the first in the order when the
	// threshold is met.
	guarded.works()
	next.works()
	s.gone(&next.Pod)
	if refusal, there := s.decisionAbout(t.Context(), &guarded.Pod); !there || !blocked(&refusal, guarded) {
		t.Errorf("the budget should have refused the eviction of %s: %+v", guarded.Name, refusal)
	}
	if first := s.requests()[0]; first.ObjectRef.Name != guarded.Name {
		t.Errorf("the first request was about %s", first.ObjectRef.Name)
	}
	untilEndIsSeen(s, &next.Pod)
	s.stays(&guarded.Pod)
	s.wantVictims(&next.Pod)
}

// blocked reports whether the decision's requests for the pod were refused for its budget.
func blocked(d *node.Decision, pod *worker) bool {
	requests := slices.DeleteFunc(slices.Clone(d.Attempts), func(a node.Attempt) bool { return a.UID != string(pod.UID) })
	return len(requests) > 0 && !slices.ContainsFunc(requests, func(a node.Attempt) bool {
		return a.Outcome != "BlockedByBudget" || a.Budget != pod.Labels["app"]
	})
}

// untilEndIsSeen waits until evictd has reported the end of its victim.
func untilEndIsSeen(s *scene, pod *corev1.Pod) {
	s.Helper()
	type line struct {
		Message string `json:"msg"`
		UID     string `json:"uid"`
	}
	s.until("evictd reports the end of "+pod.Name, func(ctx context.Context) bool {
		lines, err := logLines[line](ctx)
		return err == nil && slices.Contains(lines, line{"victim ended", string(pod.UID)})
	})
}
