//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/memory"
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
	over := s.deploy(node.Workload{Name: "over", UsesMiB: 110, AsksMiB: 60})
	leak := deployWorker(s, node.Workload{
		Name: "leak", UsesMiB: leakMostMiB, AsksMiB: leakFirstMiB, LimitMiB: leakMostMiB + 100,
		Flags: []string{fmt.Sprintf("--memory-first=%dMi", leakFirstMiB), "--memory-rate=20Mi"},
	})
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

// kubeletsMemory returns memory.available by the kubelet's definition.
func kubeletsMemory(s *scene) int64 {
	s.Helper()
	readings, err := memory.Open()
	s.must(err)
	defer readings.Close()
	available, err := readings.WorkingSet()
	s.must(err)
	return available
}
