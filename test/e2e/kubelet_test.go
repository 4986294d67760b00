//go:build e2e_all

package e2e

import (
	"context"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
)

// The kubelet evicts by its own threshold while evictd's is met too. Its victim's memory is
// in a memory emptyDir, which is reclaimed only some time after its containers have ended.
// Meanwhile the deficit shrinks until the neighbor alone would suffice. The only victim is
// the kubelet's, which looks every 10 s and measures its pods as often: this test is in e2e-all only.
func TestKubeletsVictimIsTheOnlyOne(t *testing.T) {
	const takes, below, deep = 4000, 2000, 1000 // MiB
	// A pod without a controller is not a candidate for evictd, which would otherwise evict
	// it first.
	s := newScene(t, false, "protect: {podSelector: {matchLabels: {stays: \"yes\"}}, withinRequests: never}\n")
	earlier, err := live.Decisions(t.Context())
	s.must(err)
	last := uint64(0)
	if len(earlier) > 0 {
		last = earlier[0].ID
	}
	neighbour := s.deploy(node.Workload{Name: "neighbour", UsesMiB: 200, AsksMiB: 400})
	s.label(&neighbour, `"yes"`)
	eventually.Undo(t, func(ctx context.Context) {
		s.must(live.Cluster.SetEvictionHard(ctx, map[string]string{node.NodeMemory: "1Mi"}))
	})
	line := kubeletsMemory(s) - below<<20
	s.must(live.Cluster.SetEvictionHard(t.Context(), map[string]string{node.NodeMemory: strconv.FormatInt(line, 10)}))
	greedy := writer(s, "greedy", fileOf("/shm/file", takes), func(spec *corev1.PodSpec) {
		node.Mount(spec, "shm", "/shm", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	})
	s.until("the kubelet has measured its pods; otherwise it evicts any of them", func(ctx context.Context) bool {
		return kubeletKnows(ctx, &neighbour) && kubeletKnows(ctx, &greedy.Pod)
	})
	greedy.start().Open(t)
	// The neighbor would have sufficed for the first few MiB. Now it does not.
	s.until("much is missing", func(ctx context.Context) bool { return bytesMissing(ctx, s) > deep<<20 })
	s.label(&neighbour, "null")
	s.until("the kubelet has evicted the greedy pod", func(ctx context.Context) bool {
		pod, unread := live.Client.CoreV1().Pods(s.namespace).Get(ctx, "greedy", metav1.GetOptions{})
		if unread != nil || pod.Status.Phase == corev1.PodRunning {
			return false
		}
		// Succeeded, because the workload exits with 0 at SIGTERM: the kubelet overwrites
		// the Failed and Evicted that it wrote before.
		t.Logf("the kubelet's victim: phase %s, reason %q, conditions %+v", pod.Status.Phase, pod.Status.Reason, pod.Status.Conditions)
		if node.EndedByKubelet(pod) == nil || pod.DeletionTimestamp != nil {
			t.Errorf("the pod ended otherwise than by the kubelet's eviction; deleted %v", pod.DeletionTimestamp)
		}
		return true
	})
	s.until("the pressure is over", func(ctx context.Context) bool { return bytesMissing(ctx, s) < 0 })
	s.stays(&neighbour)
	decisions, err := live.Decisions(t.Context())
	s.must(err)
	var holds []string
	for _, d := range decisions {
		if d.ID > last && d.Signal == node.PodMemory && d.Verb == "Held" {
			holds = append(holds, d.Hold)
		}
	}
	t.Logf("evictd's holds, the newest first: %q", holds)
	if !slices.Contains(holds, "InsufficientReclaim") {
		t.Error("evictd's threshold did not hold while the kubelet evicted: the test shows nothing")
	}
	if !slices.Contains(holds, "ReclaimInProgress") {
		t.Error("evictd did not rely on the kubelet's victim")
	}
}

// kubeletKnows reports whether the kubelet has measured the memory of a pod.
func kubeletKnows(ctx context.Context, pod *corev1.Pod) bool {
	summary, err := live.Summary(ctx)
	return err == nil && slices.ContainsFunc(summary.Pods, func(p statsapi.PodStats) bool {
		return p.PodRef.UID == string(pod.UID) && p.Memory != nil && p.Memory.WorkingSetBytes != nil
	})
}

// bytesMissing returns by how many bytes the pods' usage exceeds evictd's threshold; negative
// when there is memory left, and while evictd does not report it.
func bytesMissing(ctx context.Context, s *scene) int64 {
	s.Helper()
	families, err := live.Metrics(ctx)
	if err != nil {
		return -1
	}
	left, _ := families.Sum("evictd_signal_available_bytes", "signal", node.PodMemory)
	line, there := families.Sum("evictd_threshold_line_bytes", "signal", node.PodMemory, "kind", "Hard")
	if !there {
		return -1
	}
	return int64(line - left)
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
