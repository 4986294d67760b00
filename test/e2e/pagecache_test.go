//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"testing"

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
	over, leak := s.deploy(node.Workload{Name: "over", UsesMiB: 110, AsksMiB: 60}), leakingPod(s, leakFirstMiB, leakMostMiB, 20)
	calm := append(cacheHolders(s), over)
	if got := s.victims(); len(got) > 0 {
		t.Fatalf("%q were evicted for page cache", got)
	}
	leak.works()
	s.nearLine(leakUntilMetMiB)
	d := s.gone(&leak.Pod)
	if d.Signal != node.NodeMemory || d.Verb != "Acted" {
		t.Errorf("the decision: %+v", d)
	}
	s.wantVictims(&leak.Pod)
	for i := range calm {
		s.stays(&calm[i])
	}
}

// The same with a leak that stays within its request. While much memory is left it stays,
// although the line is crossed. So do the holders, whose end would reclaim almost nothing, and
// two small pods, of which one exceeds its request and the other is nearer to it than the
// leak: the leak would use up within seconds what the end of both reclaims. When the leak
// would reach the kubelet's line before it could have ended, it is evicted, and only it.
func TestLeakWithinItsRequestGoesAtExhaustion(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	// The leak allocates 2250 MiB within its grace period and the margin of 15 s.
	const kubeletsBelow, aSecond, most = 3500, 50, 8500 // MiB; the first is below evictd's line
	// All small pods together hold what the leak takes in two seconds: the certain rate can be half of the leak's.
	const smallMiB = 60
	over := s.deploy(node.Workload{Name: "over", UsesMiB: smallMiB, AsksMiB: smallMiB - 40})
	near := s.deploy(node.Workload{Name: "near", UsesMiB: smallMiB, AsksMiB: smallMiB + 20})
	leak := leakingPod(s, most, most, aSecond) // evictd has read its usage before it grows
	calm := append(cacheHolders(s), over, near)
	s.kubeletsLine(kubeletsMemory(s) - (leakFirstMiB+leakUntilMetMiB+kubeletsBelow)<<20)
	s.nearLine(leakFirstMiB + leakUntilMetMiB) // in force before it is crossed
	s.knowsTheKubeletsLine()
	leak.works()
	d := s.gone(&leak.Pod)
	if d.Signal != node.NodeMemory || d.Verb != "Acted" || d.Available > d.Line-(kubeletsBelow/10)<<20 {
		t.Errorf("the decision: %+v", d)
	}
	s.wantVictims(&leak.Pod)
	for i := range calm {
		s.stays(&calm[i])
	}
	s.kubeletHasNotActed()
}

// cacheHolders creates the pods and waits until their cache is active. Together they read
// more than is available above the line by then: by the kubelet's definition, in which active
// page cache is not available, it is crossed. Then the line is far again.
func cacheHolders(s *scene) []corev1.Pod {
	s.Helper()
	line, err := live.LineBelow(s.Context(), node.NodeMemory, nodeHeadroom)
	s.must(err)
	before := kubeletsMemory(s)
	line = min(line, before-nodeHeadroom<<20)
	s.configure(node.Policy{Signal: node.NodeMemory, Line: line})
	pods := cacheHoldersOf(s, cacheMiB)
	s.until("the line is crossed by the kubelet's definition", func(context.Context) bool {
		return before-kubeletsMemory(s) > nodeHeadroom<<20
	})
	s.ticks() // evictd decides under a line that is crossed by the kubelet's definition
	s.configure(node.Policy{Signal: node.NodeMemory, Line: farLine})
	return pods
}

// cacheHoldersOf creates the pods, and waits until the page cache of each is active.
func cacheHoldersOf(s *scene, mebibytes int64) []corev1.Pod {
	s.Helper()
	pods := make([]corev1.Pod, holders)
	for i := range pods {
		pods[i] = s.deploy(node.Workload{
			Name: fmt.Sprintf("holder-%d", i), UsesMiB: holderMiB, AsksMiB: holderAsksMiB, LimitMiB: mebibytes + 100,
			Flags: []string{"--cache=/data/cache", fmt.Sprintf("--cache-bytes=%dMi", mebibytes)},
			Change: func(spec *corev1.PodSpec) {
				node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
			},
		})
	}
	for i := range pods {
		s.until(pods[i].Name+" holds its page cache", func(context.Context) bool {
			return s.inCgroup(&pods[i], "active_file") >= mebibytes<<20
		})
	}
	return pods
}

// leakingPod makes a pod that allocates its first memory at once, on the test's signal, and the rest
// slowly.
func leakingPod(s *scene, asksMiB, mostMiB, aSecondMiB int64) *worker {
	s.Helper()
	return deployWorker(s, node.Workload{
		Name: "leak", UsesMiB: mostMiB, AsksMiB: asksMiB, LimitMiB: max(asksMiB, mostMiB) + 100,
		Flags: []string{fmt.Sprintf("--memory-first=%dMi", leakFirstMiB), fmt.Sprintf("--memory-rate=%dMi", aSecondMiB)},
	})
}
