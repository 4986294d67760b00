//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/node"
)

// memoryStall is the name of that signal, and ownLimits is why evictd holds while only pods
// stall that have reached their own limits.
const (
	memoryStall = "memory.stall"
	ownLimits   = "StalledWithinOwnLimits"
)

// A pod repeatedly reads more than its own limit, so that its tasks wait for memory, while
// the node has enough. The threshold on the node's stall is met, and no pod is evicted:
// neither the reader nor a pod beside it that exceeds its request. How much of the time tasks wait is
// the machine's affair: this test is in e2e-all only.
func TestPodThatThrashesInItsOwnLimitEvictsNoPod(t *testing.T) {
	const threshold = 0.1 // of the time
	on(t, oneDisk)
	s := emptyScene(t)
	beside := s.deploy(node.Workload{Name: "beside", UsesMiB: 300, AsksMiB: 50})
	s.configure(node.Policy{
		Signal: node.NodeMemory, Line: farLine, Extra: fmt.Sprintf("memoryStall: {type: some, threshold: %.0f%%, window: 2s}\n", 100*threshold),
	})
	held := s.held(t.Context(), memoryStall, ownLimits)
	reader := readerPod(s)
	since, waited := time.Now(), stallTime(s)
	holds := func(ctx context.Context) bool { return s.held(ctx, memoryStall, ownLimits) > held }
	if err := eventually.Poll(t.Context(), holds); err != nil {
		if share := (stallTime(s) - waited).Seconds() / time.Since(since).Seconds(); share < threshold {
			t.Skipf("SKIP: tasks of this machine waited for memory for %.0f %% of the time only", 100*share)
		}
		t.Fatalf("waiting until evictd holds: %v\n%s", err, lastDecisions())
	}
	s.wantVictims()
	s.stays(&reader)
	s.stays(&beside)
}

// readerPod creates a pod whose containers each read a file, repeatedly, that is much larger than
// their limits. One alone would hardly wait: reclaiming clean page cache takes little time.
func readerPod(s *scene) corev1.Pod {
	s.Helper()
	const containers = 8
	flag := func(i int) string { return fmt.Sprintf("--cache=/data/cache-%d", i) }
	return s.deploy(node.Workload{
		Name: "reader", UsesMiB: 1, AsksMiB: 10, LimitMiB: 60,
		Flags: []string{"--cache-bytes=4Gi", flag(0)},
		Change: func(spec *corev1.PodSpec) {
			node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
			first := &spec.Containers[0]
			for i := 1; i < containers; i++ {
				c := first.DeepCopy()
				c.Name, c.Args[len(c.Args)-1] = fmt.Sprintf("%s-%d", c.Name, i), flag(i)
				spec.Containers = append(spec.Containers, *c)
			}
		},
	})
}

// stallTime returns for how long tasks have waited for memory since the machine's start.
func stallTime(s *scene) time.Duration {
	s.Helper()
	text, err := os.ReadFile("/proc/pressure/memory")
	s.must(err)
	microseconds, err := kernelfile.StallTotal(text, "some")
	s.must(err)
	return time.Duration(microseconds) * time.Microsecond
}
