//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// A pod exceeds its own limit, and the kernel kills it, while the node has enough memory.
// The counter counts the kill, one line of the log names the pod, also once its container
// runs again, and no pod is evicted.
func TestOOMKillInAPodsOwnLimitIsNamed(t *testing.T) {
	const repeats = 10 * time.Second // of the status, while the container backs off or runs again
	s := newScene(t, false, "")
	tight := s.taker(node.Workload{Name: "tight", UsesMiB: 300, AsksMiB: 50, LimitMiB: 100})
	counted, evicted := s.count(t.Context(), "evictd_oom_kills_total", nil), s.evicted()
	start := filepath.Join(tight.control, "go")
	s.must(os.WriteFile(start, nil, 0o600))
	s.until("its container starts again", func(ctx context.Context) bool {
		ends, runs := s.containerEnds(ctx, tight)
		return runs && ends > 0
	})
	s.must(os.Remove(start)) // the next container allocates nothing; this one may be killed too
	s.within(2*time.Minute, "each kill is named", func(ctx context.Context) bool {
		ends, runs := s.containerEnds(ctx, tight)
		return runs && s.killsNamed(ctx, tight) == ends
	})
	s.never(repeats, "a kill is named twice", func(ctx context.Context) bool {
		named := s.killsNamed(ctx, tight)
		ends, _ := s.containerEnds(ctx, tight)
		return named > ends
	})
	ends, _ := s.containerEnds(t.Context(), tight)
	if kills := s.count(t.Context(), "evictd_oom_kills_total", nil) - counted; kills < float64(ends) {
		t.Errorf("evictd_oom_kills_total has grown by %v, want %d at least", kills, ends)
	}
	if now := s.evicted(); now != evicted {
		t.Errorf("%v pods were evicted", now-evicted)
	}
}

// containerEnds returns how often the pod's container has ended, and whether it runs now.
// While it waits for its next start, that is one more than its restarts.
func (s *scene) containerEnds(ctx context.Context, t *taker) (ends int64, runs bool) {
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
func (s *scene) killsNamed(ctx context.Context, t *taker) (kills int64) {
	s.Helper()
	log, err := live.Log(ctx)
	if err != nil {
		return 0
	}
	_, onV1 := os.Stat("/sys/fs/cgroup/cgroup.controllers") // an error where there is none
	for line := range strings.Lines(log) {
		var named struct {
			Pod       string `json:"pod"`
			Container string `json:"container"`
			Count     int64  `json:"oom_kills"`
		}
		if json.Unmarshal([]byte(line), &named) != nil || named.Pod != s.namespace+"/"+t.Name {
			continue
		}
		if onV1 != nil && named.Container != "workload" {
			s.Errorf("the container is not named: %s", line)
		}
		kills += named.Count
	}
	return kills
}
