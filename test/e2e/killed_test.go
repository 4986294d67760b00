//go:build e2e || e2e_all

package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// Evictd is killed while its victim ends slowly, and after the API server has refused to evict another
// pod. The next process goes on with the state that it finds in its pod's volume: it evicts no pod
// beside the victim, although there is one whose end would suffice too, and does not ask for the
// refused pod again within its back-off. The victim ends as its grace period permits.
func TestKilledInAMemoryIncident(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	s.patientThreshold()
	refused, beside, slow := killedWhileItsVictimEnds(s)
	s.ticks()
	if !terminating(t.Context(), &slow.Pod) {
		t.Fatal("the victim has ended before its barrier was opened")
	}
	slow.end().Open(t)
	s.ends(&slow.Pod)
	s.wantVictims(&slow.Pod)
	s.stays(&beside.Pod)
	s.stays(&refused.Pod)
	if steps := slow.steps(); len(steps) == 0 || steps[len(steps)-1] != "exit" {
		t.Errorf("the victim's steps were %q: it did not end by itself", steps)
	}
	keepsBackOff(s, &refused.Pod)
	s.recorded(slow, evicted)
}

// killedWhileItsVictimEnds kills evictd once slow is terminating, after a request for refused, and the
// record tells of it, and waits until the next process has gone on with its state. Two of the three
// cause no pressure, the three do, and then the end of any would suffice. Slow ends at its barrier.
func killedWhileItsVictimEnds(s *scene) (refused, beside, slow *worker) {
	s.Helper()
	const usesMiB, limitMiB = 280, 450
	refused = deployWorker(s, node.Workload{Name: "refused", UsesMiB: usesMiB + 10, AsksMiB: 10, LimitMiB: limitMiB})
	twoBudgets(s, "refused")
	beside = deployWorker(s, node.Workload{Name: "beside", UsesMiB: usesMiB, AsksMiB: 130, LimitMiB: limitMiB})
	slow = deployWorker(s, node.Workload{Name: "slow", UsesMiB: usesMiB, AsksMiB: 30, LimitMiB: limitMiB, Flags: []string{endsAtBarrier}})
	for _, w := range []*worker{refused, slow, beside} {
		w.works()
	}
	s.terminates(&slow.Pod)
	evictd, err := live.EvictdPod(s.Context())
	s.must(err)
	path := live.Cluster.InNode(filepath.Join(emptyDirs(evictd), "state", "state.json"))
	s.until("the pod's volume has the state with the victim and the refusal", func(context.Context) bool {
		text, unread := os.ReadFile(path)
		return unread == nil && bytes.Contains(text, []byte(slow.UID)) && bytes.Contains(text, []byte(refused.UID))
	})
	s.tells(slow, evicted)
	s.must(live.Kill(s.Context()))
	type line struct {
		Message  string `json:"msg"`
		InFlight int    `json:"in_flight"`
	}
	s.until("the next evictd goes on with that state", func(ctx context.Context) bool {
		lines, unread := logLines[line](ctx)
		return unread == nil && slices.ContainsFunc(lines, func(l line) bool {
			return l.Message == "going on with the state of the container before" && l.InFlight > 0
		})
	})
	return refused, beside, slow
}

// keepsBackOff fails the test where evictd has not tried to evict a pod with two budgets, or has tried
// again within a minute.
func keepsBackOff(s *scene, pod *corev1.Pod) {
	s.Helper()
	var tried []time.Time
	for _, e := range s.requests() {
		if e.ObjectRef.Name == pod.Name {
			tried = append(tried, e.Received.Time)
		}
	}
	if len(tried) == 0 {
		s.Errorf("evictd has not tried to evict %s", pod.Name)
	}
	for i := 1; i < len(tried); i++ {
		if after := tried[i].Sub(tried[i-1]); after < time.Minute {
			s.Errorf("evictd tried to evict %s again after %v", pod.Name, after)
		}
	}
}

// twoBudgets gives a pod two budgets: the Eviction API always refuses it, and evictd backs
// off for a minute.
func twoBudgets(s *scene, app string) {
	s.Helper()
	s.must(live.Budget(s.Context(), s.namespace, app, 1))
	_, err := live.Kubectl(s.Context(), "-n", s.namespace, "create", "poddisruptionbudget", app+"-too", "--selector=app="+app, "--min-available=1")
	s.must(err)
}
