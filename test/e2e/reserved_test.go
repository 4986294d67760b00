//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/node"
)

// On a node with reservations the pods' cgroup has a limit, and the kernel kills inside it while
// the node has plenty of memory. With the default thresholds and limits evictd evicts a leak
// before the kernel or the kubelet acts. Pods beside it that hold page cache stay, and so does
// one that exceeds its request by a little: also where evictionMinimumReclaim asks for more than
// all pods hold, as the line holds again without them.
func TestLeakInThePodsLimit(t *testing.T) {
	on(t, oneDisk)
	t.Run("default", func(t *testing.T) { leaksInThePodsLimit(t, "") })
	t.Run("minimumReclaim", func(t *testing.T) {
		leaksInThePodsLimit(t, fmt.Sprintf("evictionMinimumReclaim: {%s: %dMi}\n", node.PodMemory, podsLimitMiB))
	})
}

// podsLimitMiB is the limit of the pods' cgroup: so large that 5 % of it are more than the page cache
// of the holders and the kubelet's 100 MiB. By the kubelet's definition their cache is not available:
// with more of it the kubelet evicts first, and for page cache.
const podsLimitMiB, littleCacheMiB = 12 << 10, 75

// What a holder of page cache uses, in MiB.
const holders, holderMiB, holderAsksMiB = 4, 10, 8

func leaksInThePodsLimit(t *testing.T, extra string) {
	t.Helper()
	const firstMiB, mostMiB, aSecondMiB, asksMiB = 8000, 13000, 100, 2000
	s := emptyScene(t)
	over := s.deploy(node.Workload{Name: "over", UsesMiB: 110, AsksMiB: 60})
	leak := deployWorker(s, node.Workload{
		Name: "leak", UsesMiB: mostMiB, AsksMiB: asksMiB,
		Flags: []string{fmt.Sprintf("--memory-first=%dMi", firstMiB), fmt.Sprintf("--memory-rate=%dMi", aSecondMiB)},
	})
	calm := append(cacheHolders(s, littleCacheMiB), over)
	s.podsMayUse(podsLimitMiB << 20)
	s.must(live.Configure(t.Context(), node.Policy{Limits: "{}", Extra: extra}))
	eventually.Undo(t, s.farFromAnyLine)
	s.until("evictd knows the limit", func(ctx context.Context) bool {
		return s.count(ctx, "evictd_signal_capacity_bytes", "signal", node.PodMemory) == podsLimitMiB<<20
	})
	leak.works()
	d := s.gone(&leak.Pod)
	if d.Signal != node.PodMemory || d.Verb != "Acted" {
		t.Errorf("the decision: %+v", d)
	}
	s.wantVictims(&leak.Pod)
	for i := range calm {
		s.stays(&calm[i])
	}
	s.kubeletHasNotActed()
	if kills := killsNamed(t.Context(), s, leak); kills > 0 {
		t.Errorf("the kernel has killed the leak: %d processes", kills)
	}
}

// podsMayUse gives the pods' cgroup that limit in bytes until the end of the test: the kubelet reserves
// the rest of the node, and evicts by its default threshold.
func (s *scene) podsMayUse(limit int64) {
	s.Helper()
	current, err := live.Client.CoreV1().Nodes().Get(s.Context(), live.Name(), metav1.GetOptions{})
	s.must(err)
	reserved := current.Status.Capacity.Memory().Value() - limit
	eventually.Undo(s, func(ctx context.Context) {
		err := live.Cluster.SetKubelet(ctx, map[string]any{
			"kubeReserved": nil, "evictionHard": map[string]string{node.NodeMemory: "1Mi"},
		})
		if err != nil {
			s.Errorf("taking the reservation back: %v", err)
		}
	})
	s.must(live.Cluster.SetKubelet(s.Context(), map[string]any{
		"kubeReserved": map[string]string{"memory": strconv.FormatInt(reserved, 10)},
		"evictionHard": map[string]string{node.NodeMemory: "100Mi"},
	}))
}

// cacheHolders creates the pods, and waits until the page cache of each is active.
func cacheHolders(s *scene, mebibytes int64) []corev1.Pod {
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
