//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// What a holder of page cache uses, and what the leak uses before it leaks, in MiB.
const (
	holders, holderMiB, holderAsksMiB, cacheMiB = 4, 10, 8, 600
	leakFirstMiB, leakMostMiB                   = 2500, 4500 // more than the rest of the machine varies
	// leakUntilMetMiB is how much more memory is used until the threshold is met: the leak
	// then exceeds its request by that much.
	leakUntilMetMiB = 300
)

// Four pods read more than is left above the line, repeatedly. That is page cache, which is
// available memory: no pod is evicted, although their working sets exceed their requests by
// 600 MiB each, and another pod exceeds its request by 50 MiB of anonymous memory. Then a pod
// beside them leaks slowly, and exceeds its request by 300 MiB when it crosses the line: it is
// evicted, and the others stay.
func TestPageCacheHoldersLive(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	over, leak := s.deploy(node.Workload{Name: "over", UsesMiB: 110, AsksMiB: 60}), s.leak(leakFirstMiB, leakMostMiB, 20)
	evicted := s.evicted()
	calm := append(s.cacheHolders(), over)
	if now := s.evicted(); now != evicted {
		t.Fatalf("%v pods were evicted for page cache", now-evicted)
	}
	s.takes(leak, "first")
	s.nearLine(leakUntilMetMiB, defaultReclaim)
	d := s.gone(&leak.Pod)
	if d.Signal != node.NodeMemory || d.Verb != "Acted" {
		t.Errorf("the decision: %+v", d)
	}
	s.staysBesideOne(calm, evicted)
}

// staysBesideOne checks for a while that only one pod was evicted since the count of
// evictions was taken.
func (s *scene) staysBesideOne(calm []corev1.Pod, evicted float64) {
	s.Helper()
	s.never(10*time.Second, "a second pod goes", func(ctx context.Context) bool {
		return s.count(ctx, "evictd_evictions_total", map[string]string{"outcome": "Evicted"}) > evicted+1
	})
	for i := range calm {
		s.stays(&calm[i])
	}
	if now := s.evicted(); now != evicted+1 {
		s.Errorf("%v evictions, want one more than %v", now, evicted)
	}
}

// cacheHolders creates the pods and waits until their cache is active. Together they read
// more than is available above the line by then: by the kubelet's definition, in which active
// page cache is not available, it is crossed. Then the line is far again.
func (s *scene) cacheHolders() []corev1.Pod {
	s.Helper()
	line, err := live.LineBelow(s.Context(), node.NodeMemory, nodeHeadroom)
	s.must(err)
	before := kubeletsMemory(s)
	line = min(line, before-nodeHeadroom<<20)
	s.must(live.Configure(s.Context(), node.Policy{Signal: node.NodeMemory, Line: line, Extra: defaultReclaim}))
	pods := make([]corev1.Pod, holders)
	for i := range pods {
		pods[i] = s.deploy(node.Workload{
			Name: fmt.Sprintf("holder-%d", i), UsesMiB: holderMiB, AsksMiB: holderAsksMiB, LimitMiB: cacheMiB + 100,
			Flags: []string{"--cache=/data/cache", fmt.Sprintf("--cache-bytes=%dMi", cacheMiB)},
			Change: func(spec *corev1.PodSpec) {
				node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
			},
		})
	}
	for i := range pods {
		s.until(pods[i].Name+" holds its page cache", func(context.Context) bool {
			return s.inCgroup(&pods[i], "active_file") >= cacheMiB<<20
		})
	}
	s.until("the line is crossed by the kubelet's definition", func(context.Context) bool {
		return before-kubeletsMemory(s) > nodeHeadroom<<20
	})
	s.must(live.Configure(s.Context(), node.Policy{Signal: node.NodeMemory, Line: farLine}))
	return pods
}

// leak is a pod that allocates its first memory at once, on the test's signal, and the rest
// slowly.
func (s *scene) leak(asksMiB, mostMiB, aSecondMiB int64) *taker {
	s.Helper()
	return s.taker(node.Workload{
		Name: "leak", UsesMiB: mostMiB, AsksMiB: asksMiB, LimitMiB: max(asksMiB, mostMiB) + 100,
		Flags: []string{fmt.Sprintf("--memory-first=%dMi", leakFirstMiB), fmt.Sprintf("--memory-rate=%dMi", aSecondMiB)},
	})
}
