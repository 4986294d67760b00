//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// The manifest is applied with another argument while a memory incident is open and its victim ends
// slowly: evictd's pod is replaced, and the new one, which has no state of the old one, evicts no
// second pod, although there is one whose end would suffice too.
func TestUpgradeInAnIncident(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	s.must(live.Renew(t.Context())) // evictions of earlier tests do not count
	s.threshold(node.PodMemory, headroom, false, "")
	// Two of these cause no pressure, three do, and then the end of either taker would suffice.
	const usesMiB, limitMiB, delay = 280, 450, 25 * time.Second
	filler := s.deploy(node.Workload{Name: "filler", UsesMiB: usesMiB, AsksMiB: usesMiB + 20, LimitMiB: limitMiB})
	beside := s.taker(node.Workload{Name: "beside", UsesMiB: usesMiB, AsksMiB: 130, LimitMiB: limitMiB})
	slow := s.taker(node.Workload{
		Name: "slow", UsesMiB: usesMiB, AsksMiB: 30, LimitMiB: limitMiB, Flags: []string{"--term-delay=" + delay.String()},
	})
	s.takes(slow, "memory")
	s.takes(beside, "memory")
	s.until("slow is terminating", func(ctx context.Context) bool { return s.terminates(ctx, &slow.Pod) })

	s.upgrade("--log-level=debug")
	s.until("the new evictd is under pressure", func(ctx context.Context) bool {
		return s.count(ctx, "evictd_pressure", map[string]string{"signal": node.PodMemory, "kind": "Hard"}) == 1
	})
	if !s.terminates(t.Context(), &slow.Pod) {
		t.Fatal("the victim ended before the new evictd was under pressure: the test shows nothing")
	}
	s.ends(&slow.Pod)
	s.never(15*time.Second, "a second pod goes", func(ctx context.Context) bool {
		return s.count(ctx, "evictd_evictions_total", map[string]string{"outcome": "Evicted"}) > 0
	})
	s.stays(&beside.Pod)
	s.stays(&filler)
	if short := s.count(t.Context(), "evictd_pressure", map[string]string{"signal": node.PodMemory, "kind": "Hard"}); short != 0 {
		t.Errorf("evictd_pressure = %v: the victim's end was not enough", short)
	}
}

// terminates reports whether a pod is there and terminating.
func (s *scene) terminates(ctx context.Context, pod *corev1.Pod) bool {
	now, err := live.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && now.UID == pod.UID && now.DeletionTimestamp != nil
}

// upgrade applies the shipped manifest with one more argument and with the configuration that is in
// force, as the README says, and waits until another pod of evictd's is ready. The end of the test
// applies the shipped one.
func (s *scene) upgrade(argument string) {
	s.Helper()
	before, err := live.EvictdPod(s.Context())
	s.must(err)
	file := filepath.Join(s.TempDir(), "daemonset.yaml")
	s.must(os.WriteFile(file, []byte(s.manifestWith(argument)), 0o600))
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Patiently(time.Minute))
		defer cancel()
		s.must(live.Deploy(ctx))
	})
	_, err = live.Kubectl(s.Context(), "apply", "-f", file)
	s.must(err)
	s.until("another evictd is ready", func(ctx context.Context) bool {
		now, unread := live.EvictdPod(ctx)
		if unread != nil || now.UID == before.UID {
			return false
		}
		_, code, unanswered := live.Get(ctx, "/readyz")
		return unanswered == nil && code == http.StatusOK
	})
}

// manifestWith returns the shipped manifest with one more argument and the configuration in force.
func (s *scene) manifestWith(argument string) string {
	s.Helper()
	text, err := os.ReadFile(live.Files.Manifest)
	s.must(err)
	inForce, err := live.Client.CoreV1().ConfigMaps(node.Namespace).Get(s.Context(), "evictd", metav1.GetOptions{})
	s.must(err)
	const arguments, file, indent = "        - --host-root=/host\n", "  evictd.yaml: |\n", "    "
	manifest := strings.Replace(string(text), arguments, arguments+"        - "+argument+"\n", 1)
	head, rest, found := strings.Cut(manifest, file)
	_, tail, ends := strings.Cut(rest, "\n---\n")
	if manifest == string(text) || !found || !ends {
		s.Fatal("the shipped manifest has another form: adapt the test")
	}
	var configuration strings.Builder
	for line := range strings.Lines(inForce.Data["evictd.yaml"]) {
		configuration.WriteString(indent + line)
	}
	return head + file + configuration.String() + "\n---\n" + tail
}
