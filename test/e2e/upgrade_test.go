//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/node"
)

// The manifest is applied with another argument while a memory incident is open and its victim ends
// slowly: evictd's pod is replaced, and the new one, which has no state of the old one, evicts no
// second pod, although there is one whose end would suffice too.
func TestUpgradeInAnIncident(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	s.patientThreshold(node.Policy{})
	// Two of these cause no pressure, three do, and then the end of either taker would suffice.
	const usesMiB, limitMiB = 280, 450
	filler := s.deploy(node.Workload{Name: "filler", UsesMiB: usesMiB, AsksMiB: usesMiB + 20, LimitMiB: limitMiB})
	beside := deployWorker(s, node.Workload{Name: "beside", UsesMiB: usesMiB, AsksMiB: 130, LimitMiB: limitMiB})
	slow := deployWorker(s, node.Workload{
		Name: "slow", UsesMiB: usesMiB, AsksMiB: 30, LimitMiB: limitMiB, Flags: []string{endsAtBarrier},
	})
	slow.works()
	beside.works()
	s.terminates(&slow.Pod)

	upgradeEvictd(s, "--log-level=debug")
	underPressure := func(want float64) {
		s.until(fmt.Sprintf("the new evictd has a pressure of %v", want), func(ctx context.Context) bool {
			return s.count(ctx, "evictd_pressure", "signal", node.PodMemory, "kind", "Soft") == want
		})
	}
	underPressure(1)
	s.wantVictims(&slow.Pod)
	slow.end().Open(t)
	s.ends(&slow.Pod)
	underPressure(0)
	s.wantVictims(&slow.Pod)
	s.stays(&beside.Pod)
	s.stays(&filler)
}

// upgradeEvictd applies the shipped manifest with one more argument and with the configuration that is in
// force, as the README says, and waits until another pod of evictd's is ready. The end of the test
// applies the shipped one.
func upgradeEvictd(s *scene, argument string) {
	s.Helper()
	before, err := live.EvictdPod(s.Context())
	s.must(err)
	file := filepath.Join(s.TempDir(), "daemonset.yaml")
	s.must(os.WriteFile(file, []byte(manifestWith(s, argument)), 0o600))
	eventually.Undo(s, func(ctx context.Context) {
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
func manifestWith(s *scene, argument string) string {
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
