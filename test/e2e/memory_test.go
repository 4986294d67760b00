//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// defaultReclaim is the part of the default configuration beside its thresholds.
const defaultReclaim = "evictionMinimumReclaim: {memory.available: 2%}\n"

// farLine is a threshold on the node's memory, in bytes, that no test comes near.
const farLine = 64 << 20

// withinRequests is why evictd holds while no candidate uses more than its request.
const withinRequests = "WithinRequests"

// kubeletFile is the kubeadm path of the kubelet's configuration, where evictd finds it.
const kubeletFile = "/var/lib/kubelet/config.yaml"

// kubeletsLine makes the kubelet evict below that many bytes of memory.available, by its own
// definition, until the end of the test. Evictd reads the value with its own next
// configuration.
func (s *scene) kubeletsLine(line int64) {
	s.Helper()
	s.kubeletEvicts(map[string]string{node.NodeMemory: strconv.FormatInt(line, 10)})
}

// kubeletEvicts gives the kubelet hard thresholds until the end of the test.
func (s *scene) kubeletEvicts(thresholds map[string]string) {
	s.Helper()
	path, err := live.Cluster.InNode(kubeletFile)
	s.must(err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Patiently(time.Minute))
		defer cancel()
		_ = os.Remove(path)
		if err := live.Cluster.SetEvictionHard(ctx, map[string]string{node.NodeMemory: "1Mi"}); err != nil {
			s.Errorf("setting the kubelet's thresholds back: %v", err)
		}
	})
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard:\n"
	for signal, threshold := range thresholds {
		text += fmt.Sprintf("  %s: %q\n", signal, threshold)
	}
	s.must(os.WriteFile(path, []byte(text), 0o644)) // evictd reads it without extra rights
	s.must(live.Cluster.SetEvictionHard(s.Context(), thresholds))
}

// knowsTheKubeletsLine fails the test where evictd could not read the kubelet's file.
func (s *scene) knowsTheKubeletsLine() {
	s.Helper()
	if read := s.count(s.Context(), "evictd_kubelet_config_read", nil); read != 1 {
		s.Errorf("evictd_kubelet_config_read = %v: evictd does not know the kubelet's line", read)
	}
}

// kubeletHasNotActed fails the test where the kubelet has evicted a pod of the scene.
func (s *scene) kubeletHasNotActed() {
	s.Helper()
	for _, name := range s.evictedByTheKubelet(s.Context()) {
		s.Errorf("the kubelet has evicted %s", name)
	}
}

// evictedByTheKubelet returns the names of the scene's pods that the kubelet reports as
// evicted.
func (s *scene) evictedByTheKubelet(ctx context.Context) []string {
	s.Helper()
	list, err := live.Client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	var names []string
	for i := range list.Items {
		// The kubelet's own reason in its Event: pkg/kubelet/eviction/eviction_manager.go. A kubelet that
		// starts under pressure gives the same one to a running pod that it does not admit.
		if e := &list.Items[i]; e.Reason == "Evicted" && e.Source.Component == "kubelet" && e.Type == corev1.EventTypeWarning &&
			!strings.HasPrefix(e.Message, "The node had condition") {
			names = append(names, e.InvolvedObject.Name)
		}
	}
	return names
}

// nearLine applies a threshold on the node's memory that is met when that many more MiB are
// used, beside the default limits.
func (s *scene) nearLine(below int64, extra string) {
	s.Helper()
	line, err := live.LineBelow(s.Context(), node.NodeMemory, below)
	s.must(err)
	s.must(live.Configure(s.Context(), node.Policy{Signal: node.NodeMemory, Line: line, Limits: "{}", Extra: extra}))
	s.Cleanup(s.farFromAnyLine)
}

// farFromAnyLine lets the next test create its pods without pressure.
func (s *scene) farFromAnyLine() {
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Patiently(time.Minute))
	defer cancel()
	s.must(live.Configure(ctx, node.Policy{Signal: node.NodeMemory, Line: farLine}))
}

// anonymous returns a pod's anonymous memory.
func (s *scene) anonymous(pod *corev1.Pod) int64 {
	s.Helper()
	return max(s.inCgroup(pod, "rss"), s.inCgroup(pod, "anon")) // cgroup v1 and v2
}

// inCgroup returns a figure of the memory.stat of a pod's cgroup with its containers, in bytes.
func (s *scene) inCgroup(pod *corev1.Pod, name string) int64 {
	s.Helper()
	below := filepath.Join("*", "kubepods", "*", "pod"+string(pod.UID), "memory.stat")
	v1, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/memory", below))
	s.must(err)
	v2, err := filepath.Glob(filepath.Join("/sys/fs/cgroup", below))
	s.must(err)
	if len(v1) > 0 {
		name = "total_" + name
	}
	for _, file := range append(v1, v2...) {
		text, err := os.ReadFile(file)
		s.must(err)
		for line := range strings.Lines(string(text)) {
			var figure int64
			if n, _ := fmt.Sscanf(line, name+" %d", &figure); n == 1 {
				return figure
			}
		}
	}
	return 0
}
