//go:build e2e_all

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// withinRequests is why evictd holds while no candidate uses more than its request.
const withinRequests = "WithinRequests"

// A host process uses memory to below the line and keeps it. The pods that use no more than
// their requests did not cause that, and stay. When the process uses more, and the line that the
// kubelet's file names is met, one pod is evicted, which suffices. The kubelet itself has another
// line, so that it does not act in the same moment.
func TestHostProcessTakesNoPodWithinItsRequest(t *testing.T) {
	const (
		pods, usesMiB, asksMiB = 3, 1000, 1100
		untilMetMiB, takesMiB  = 300, 700
		kubeletsMiB, thenMiB   = 500, 900 // of what is left then; the second is less than one pod and the distance to the line
	)
	on(t, oneDisk)
	s := emptyScene(t)
	var within []corev1.Pod
	for i := range pods {
		within = append(within, s.deploy(node.Workload{
			Name: fmt.Sprintf("within-%d", i), UsesMiB: usesMiB, AsksMiB: asksMiB, LimitMiB: asksMiB,
		}))
	}
	for i := range within {
		s.until(within[i].Name+" holds its memory", func(context.Context) bool { return s.anonymous(&within[i]) >= usesMiB<<20 })
	}
	s.nearLine(untilMetMiB)
	s.takesNoPods() // what replaces a victim would take as much again
	held := s.held(t.Context(), node.NodeMemory, withinRequests)
	hostTakes(s, takesMiB)
	s.until("evictd holds", func(ctx context.Context) bool { return s.held(ctx, node.NodeMemory, withinRequests) > held })
	s.until("an Event on the node gives the reason", func(ctx context.Context) bool { return nodeEvent(ctx, s, withinRequests) != "" })
	namesHostProcess(s, "workload", untilMetMiB<<20)
	s.wantVictims()

	s.kubeletsFile(map[string]string{node.NodeMemory: strconv.FormatInt(kubeletsMemory(s)-kubeletsMiB<<20, 10)})
	s.nearLine(untilMetMiB)
	s.knowsTheKubeletsLine()
	hostTakes(s, thenMiB)
	s.until("a pod is evicted", func(context.Context) bool { return len(s.victims()) > 0 })
	s.ticks()
	victims := s.victims()
	if len(victims) != 1 {
		t.Errorf("evictd has evicted %q, want one pod\n%s", victims, lastDecisions())
	}
	for i := range within {
		if !slices.Contains(victims, within[i].Name) {
			s.stays(&within[i])
		}
	}
}

// hostTakes makes a host process allocate that much memory and keep it until the end of the
// test.
func hostTakes(s *scene, mebibytes int) {
	s.Helper()
	process := exec.Command(filepath.Join(live.Files.ClusterBin, "workload"), fmt.Sprintf("--memory=%dMi", mebibytes)) // the Makefile built it; it is ended below
	s.must(process.Start())
	s.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
}

// namesHostProcess waits until a decision names a host process with that much memory, or
// three that have as much together, as a build on the same machine may, and an Event on the
// node names the largest. Pods that run the same program do not count.
func namesHostProcess(s *scene, name string, atLeast int64) {
	s.Helper()
	var decisions []node.Decision // from the log: /debug/decisions keeps only the last of equal ones
	s.until("a decision names the process", func(ctx context.Context) (named bool) {
		log, err := live.Log(ctx)
		decisions = nil
		for line := range strings.Lines(log) {
			var d node.Decision
			if json.Unmarshal([]byte(line), &d) == nil && d.Hold == withinRequests && len(d.Outside) > 0 {
				decisions = append(decisions, d)
			}
		}
		return err == nil && slices.ContainsFunc(decisions, func(d node.Decision) bool {
			others := !slices.ContainsFunc(d.Outside, func(p node.Process) bool { return p.RSS < atLeast })
			return others || slices.ContainsFunc(d.Outside, func(p node.Process) bool { return p.Name == name && p.RSS >= atLeast })
		})
	})
	s.until("an Event on the node names the largest", func(ctx context.Context) bool {
		return slices.ContainsFunc(decisions, func(d node.Decision) bool {
			return nodeEvent(ctx, s, "outside of pods: "+d.Outside[0].Name+" ") != ""
		})
	})
	s.Log(nodeEvent(s.Context(), s, "outside of pods: "))
}

// nodeEvent returns the message of an Event on the node that contains the text; "" where
// there is none.
func nodeEvent(ctx context.Context, s *scene, text string) string {
	list, err := live.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.Kind == "Node" && strings.Contains(e.Message, text) {
			return e.Message
		}
	}
	return ""
}
