//go:build e2e_all

package e2e

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// A pod exceeds its own limit, and the kernel kills it, while the node has enough memory.
// The counter counts the kill, one line of the log names the pod, also once its container
// runs again, and no pod is evicted.
func TestOOMKillInAPodsOwnLimitIsNamed(t *testing.T) {
	s := newScene(t, false)
	tight := deployWorker(s, node.Workload{Name: "tight", UsesMiB: 300, AsksMiB: 50, LimitMiB: 100})
	counted := s.count(t.Context(), "evictd_oom_kills_total")
	tight.start().Open(t)
	s.until("its container starts again", func(ctx context.Context) bool {
		ends, runs := containerEnds(ctx, s, tight)
		return runs && ends > 0
	})
	tight.start().Close(t) // the next container allocates nothing; this one may be killed too
	s.until("a kill is named and counted", func(ctx context.Context) bool {
		_, runs := containerEnds(ctx, s, tight)
		return runs && killsNamed(ctx, s, tight) > 0 && s.count(ctx, "evictd_oom_kills_total") > counted
	})
	s.wantVictims()
	named := killsNamed(t.Context(), s, tight) // before the count: a kill comes before the end that the status has
	s.until("no more kills are named than its container has ended", func(ctx context.Context) bool {
		ends, _ := containerEnds(ctx, s, tight)
		return named <= ends
	})
}

// containerEnds returns how often the pod's container has ended, and whether it runs now.
// While it waits for its next start, that is one more than its restarts.
func containerEnds(ctx context.Context, s *scene, t *worker) (ends int64, runs bool) {
	s.Helper()
	// The call must not end with the wait that contains it.
	pod, err := live.Client.CoreV1().Pods(s.namespace).Get(context.WithoutCancel(ctx), t.Name, metav1.GetOptions{})
	s.must(err)
	status := &pod.Status.ContainerStatuses[0] // it ran when the scene was created
	ends, runs = int64(status.RestartCount), status.State.Running != nil
	if !runs {
		ends++
	}
	return ends, runs
}

// killsNamed returns how many OOM kills of the pod the log reports. On cgroup v1 the lines
// name its container too.
func killsNamed(ctx context.Context, s *scene, t *worker) (kills int64) {
	s.Helper()
	type line struct {
		Pod       string `json:"pod"`
		Container string `json:"container"`
		Count     int64  `json:"oom_kills"`
	}
	_, onV1 := os.Stat("/sys/fs/cgroup/cgroup.controllers") // an error where there is none
	lines, err := logLines[line](ctx)
	if err != nil {
		return 0
	}
	for _, named := range lines {
		if named.Pod != s.namespace+"/"+t.Name {
			continue
		}
		if onV1 != nil && named.Container != "workload" {
			s.Errorf("the container is not named: %+v", named)
		}
		kills += named.Count
	}
	return kills
}
