//go:build e2e_all

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

func TestDryRunEvictsNoPodAndNamesTheCandidate(t *testing.T) {
	s := newScene(t, true, "")
	greedy := s.deploy(node.Workload{Name: "greedy", UsesMiB: 1000, AsksMiB: 50})
	s.until("a decision names the pod that evictd would evict", func(ctx context.Context) bool {
		d, there := s.decisionAbout(ctx, &greedy)
		return there && d.DryRun && d.Attempts[0].Outcome == "WouldEvict"
	})
	s.until("a line of the log names the pod", func(ctx context.Context) bool {
		log, err := live.Log(ctx)
		return err == nil && slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
			return strings.Contains(line, `"decision"`) && strings.Contains(line, greedy.Name) && strings.Contains(line, `"dry_run":true`)
		})
	})
	s.wantVictims()
	s.stays(&greedy)
	s.until("an Event names the pod", func(ctx context.Context) bool { return podEvent(ctx, s, &greedy, "WouldBeEvicted") != "" })
}

// podEvent returns the message of an Event about a pod; "" when there is none.
func podEvent(ctx context.Context, s *scene, pod *corev1.Pod, reason string) string {
	list, err := live.Client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason && list.Items[i].InvolvedObject.UID == pod.UID {
			return list.Items[i].Message
		}
	}
	return ""
}

func TestPodWithinItsRequestStays(t *testing.T) {
	s := newScene(t, false, "")
	within := s.deploy(node.Workload{Name: "within", UsesMiB: 500, AsksMiB: 600})
	over := deployWorker(s, node.Workload{Name: "over", UsesMiB: 400, AsksMiB: 10})
	over.works()
	s.gone(&over.Pod)
	s.wantVictims(&over.Pod)
	s.stays(&within)
}

func TestProtectedPodsStay(t *testing.T) {
	s := newScene(t, false, `protect: {podSelector: {matchLabels: {app: chosen}}}`)
	s.must(node.Workload{Name: "bare", UsesMiB: 250, AsksMiB: 0}.Bare(t.Context(), live, s.namespace))
	bare, err := live.Running(t.Context(), s.namespace, "bare")
	s.must(err)
	chosen := s.deploy(node.Workload{Name: "chosen", UsesMiB: 250, AsksMiB: 0})
	over := deployWorker(s, node.Workload{Name: "over", UsesMiB: 400, AsksMiB: 390})
	over.works()
	s.gone(&over.Pod)
	s.wantVictims(&over.Pod)
	s.stays(&bare)
	s.stays(&chosen)
}

func TestEventTellsWhyAfterThePodHasGone(t *testing.T) {
	s := newScene(t, false, "")
	greedy := deployWorker(s, node.Workload{Name: "greedy", UsesMiB: 1000, AsksMiB: 50})
	greedy.works()
	s.gone(&greedy.Pod)
	s.until("an Event gives the reason", func(ctx context.Context) bool {
		return podEvent(ctx, s, &greedy.Pod, "EvictionRequested") != ""
	})
	message := podEvent(t.Context(), s, &greedy.Pod, "EvictionRequested")
	t.Log(message)
	for _, fragment := range []string{node.PodMemory, "priority 0", "50.0Mi"} {
		if !strings.Contains(message, fragment) {
			t.Errorf("the Event lacks %q: %s", fragment, message)
		}
	}
}

func TestMetricsScrapedByAPrometheusParser(t *testing.T) {
	s := newScene(t, false, "")
	before, err := live.Metrics(t.Context())
	s.must(err)
	evicted := []string{"signal", node.PodMemory, "outcome", "Evicted", "dry_run", "false"}
	count, there := before.Sum("evictd_evictions_total", evicted...)
	if !there {
		t.Fatal("evictd_evictions_total does not have all its label values from the start")
	}
	greedy := deployWorker(s, node.Workload{Name: "greedy", UsesMiB: 1000, AsksMiB: 50})
	greedy.works()
	s.gone(&greedy.Pod)
	after, err := live.Metrics(t.Context())
	s.must(err)
	if now, _ := after.Sum("evictd_evictions_total", evicted...); now < count+1 {
		t.Errorf("evictd_evictions_total = %v, was %v before an eviction", now, count)
	}
	if n, _ := after.Sum("evictd_reaction_seconds"); n < 1 {
		t.Errorf("evictd_reaction_seconds counts %v", n)
	}
	for name, family := range after {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.Contains(l.GetValue(), greedy.Name) || strings.Contains(l.GetValue(), s.namespace) {
					t.Errorf("%s has a pod in label %s", name, l)
				}
			}
		}
	}
}

func TestRankPrintsTheOrderWithReasons(t *testing.T) {
	s := newScene(t, true, "protect: {withinRequests: never}\n")
	s.deploy(node.Workload{Name: "second", UsesMiB: 50, AsksMiB: 100})
	s.deploy(node.Workload{Name: "first", UsesMiB: 100, AsksMiB: 10})
	var table, order []string
	s.until("both pods hold their memory", func(ctx context.Context) bool {
		table, order = runRank(ctx, s)
		return len(order) == 2 && strings.HasPrefix(order[0], "first")
	})
	if !strings.HasPrefix(order[1], "second") {
		t.Errorf("order %v", order)
	}
	t.Log("\n" + strings.Join(table, "\n"))
	for i, name := range order {
		if i+1 >= len(table) || !strings.Contains(table[i+1], name) {
			t.Errorf("line %d of the table is not about %s, as the JSON is", i+1, name)
		}
	}
}

// runRank runs `evictd rank` and returns the table's lines and the names in the
// order of the JSON.
func runRank(ctx context.Context, s *scene) (table, order []string) {
	s.Helper()
	run := func(format string) []byte {
		var complaints bytes.Buffer
		command := exec.CommandContext(ctx, live.Files.Binary, "rank", "-o", format)
		command.Stderr = &complaints
		output, err := command.Output()
		if err != nil {
			s.Fatalf("evictd rank -o %s: %v: %s", format, err, complaints.String())
		}
		return output
	}
	table = strings.Split(strings.TrimSpace(string(run("table"))), "\n")
	var report struct {
		Candidates []struct {
			Name   string `json:"name"`
			Reason string `json:"reason"`
		} `json:"candidates"`
	}
	s.must(json.Unmarshal(run("json"), &report))
	for _, c := range report.Candidates {
		if c.Reason == "" {
			s.Errorf("%s has no reason", c.Name)
		}
		order = append(order, c.Name)
	}
	return table, order
}
