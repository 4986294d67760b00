//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/kernelfile"
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
// neither the reader nor a pod beside it that exceeds its request.
func TestPodThatThrashesInItsOwnLimitEvictsNoPod(t *testing.T) {
	const (
		threshold = 0.1 // of the time
		during    = 10 * time.Second
	)
	on(t, oneDisk)
	s := emptyScene(t)
	beside := s.deploy(node.Workload{Name: "beside", UsesMiB: 300, AsksMiB: 50})
	s.must(live.Configure(t.Context(), node.Policy{
		Signal: node.NodeMemory, Line: farLine, Extra: fmt.Sprintf("memoryStall: {type: some, threshold: %.0f%%, window: 2s}\n", 100*threshold),
	}))
	evicted, held := s.evicted(), s.held(t.Context(), memoryStall, ownLimits)
	reader := s.reader()
	s.until("evictd holds", func(ctx context.Context) bool { return s.held(ctx, memoryStall, ownLimits) > held })
	waited := s.waited()
	s.never(during, "a pod is evicted", func(ctx context.Context) bool {
		return s.count(ctx, "evictd_evictions_total", map[string]string{"outcome": "Evicted"}) > evicted
	})
	share := (s.waited() - waited).Seconds() / during.Seconds()
	t.Logf("tasks waited for memory for %.0f %% of the time", 100*share)
	if share < threshold {
		t.Error("that is below the threshold: the test shows nothing")
	}
	s.stays(&reader)
	s.stays(&beside)
}

// reader creates a pod whose containers each read a file, repeatedly, that is much larger than
// their limits. One alone would hardly wait: reclaiming clean page cache takes little time.
func (s *scene) reader() corev1.Pod {
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

// waited returns for how long tasks have waited for memory since the machine's start.
func (s *scene) waited() time.Duration {
	s.Helper()
	text, err := os.ReadFile("/proc/pressure/memory")
	s.must(err)
	microseconds, err := kernelfile.StallTotal(text, "some")
	s.must(err)
	return time.Duration(microseconds) * time.Microsecond
}
