//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

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
	s.stays(&greedy)
	log, err := live.Log(t.Context())
	s.must(err)
	if !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, `"decision"`) && strings.Contains(line, greedy.Name) && strings.Contains(line, `"dry_run":true`)
	}) {
		t.Errorf("no line of the log names the pod:\n%s", log)
	}
	s.until("an Event names the pod", func(ctx context.Context) bool { return s.event(ctx, &greedy, "WouldBeEvicted") != "" })
}

// event returns the message of an Event about a pod; "" when there is none.
func (s *scene) event(ctx context.Context, pod *corev1.Pod, reason string) string {
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

func TestDeploymentOverItsRequestIsEvictedAndReplaced(t *testing.T) {
	s := newSceneOf(t, node.NodeMemory, nodeHeadroom, false, "")
	greedy := s.taker(node.Workload{Name: "greedy", UsesMiB: 3000, AsksMiB: 50})
	s.takes(greedy, "memory")
	d := s.gone(&greedy.Pod)
	if d.Signal != node.NodeMemory || d.Verb != "Acted" || d.Attempts[0].Outcome != "Evicted" {
		t.Errorf("the decision: %+v", d)
	}
	replacement, err := live.Running(t.Context(), s.namespace, "greedy")
	s.must(err)
	if replacement.UID == greedy.UID {
		t.Error("the pod was not replaced")
	}
	if !strings.Contains(s.audit(&greedy.Pod), `"subresource":"eviction"`) {
		t.Error("the audit log shows no eviction of the pod: it went some other way")
	}
	s.ended(&greedy.Pod) // the whole machine affects the reclaimed memory
}

// ending is evictd's report of an ended victim.
type ending struct {
	Message      string  `json:"msg"`
	UID          string  `json:"uid"`
	Took         float64 `json:"duration_seconds"`
	Overran      bool    `json:"overran"`
	ExpectedLast int64   `json:"expected_last"`
	Reclaimed    int64   `json:"reclaimed"`
}

// ended waits until evictd has reported the end of the victim.
func (s *scene) ended(pod *corev1.Pod) (e ending) {
	s.Helper()
	s.must(node.Until(s.Context(), time.Minute, func(ctx context.Context) bool {
		log, err := live.Log(ctx)
		if err != nil {
			return false
		}
		for line := range strings.Lines(log) {
			e = ending{}
			if json.Unmarshal([]byte(line), &e) == nil && e.Message == "victim ended" && e.UID == string(pod.UID) {
				return true
			}
		}
		return false
	}))
	s.Logf("it took %.1f s; %d MiB were expected and %d came back", e.Took, e.ExpectedLast>>20, e.Reclaimed>>20)
	return e
}

// audit returns the audit log's lines about a pod's eviction by evictd.
func (s *scene) audit(pod *corev1.Pod) string {
	s.Helper()
	text, err := os.ReadFile(live.Cluster.AuditLog())
	s.must(err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"name":"`+pod.Name+`"`) && strings.Contains(line, "system:serviceaccount:evictd:evictd") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestBudgetThatAllowsNothingKeepsItsPodAndTheNextGoes(t *testing.T) {
	s := newScene(t, false, "")
	evicted := s.evicted()
	guarded := s.taker(node.Workload{Name: "guarded", UsesMiB: 500, AsksMiB: 10})
	s.must(live.Budget(t.Context(), s.namespace, "guarded", 1))
	next := s.taker(node.Workload{Name: "next", UsesMiB: 450, AsksMiB: 10})
	// One after the other: the pod with the budget is the first in the order when the
	// threshold is met.
	s.takes(guarded, "memory")
	s.takes(next, "memory")
	d := s.gone(&next.Pod)
	s.quiet("next")
	s.stays(&guarded.Pod)
	refusal, there := s.decisionAbout(t.Context(), &guarded.Pod)
	attempts := d.Attempts
	if there && refusal.ID == d.ID-1 && refusal.ReactionSeconds+refusal.Attempts[0].TookSeconds > 4 {
		// After 5 s a plan is too old for another request: the next decision continues where
		// this one ended.
		attempts = append(refusal.Attempts, attempts...)
	}
	if len(attempts) != 2 || attempts[0].Outcome != "BlockedByBudget" || attempts[0].UID != string(guarded.UID) ||
		attempts[0].Budget != "guarded" || attempts[1].Outcome != "Evicted" || attempts[1].UID != string(next.UID) {
		t.Errorf("the budget's refusal should come before the next pod's eviction: %+v, %+v", refusal, d)
	}
	// Only pods affect this signal: what was reclaimed is what the victim used.
	if now := s.evicted(); now != evicted+1 {
		t.Errorf("%v evictions, want one more than %v", now, evicted)
	}
	if e := s.ended(&next.Pod); e.ExpectedLast < 100<<20 || max(e.Reclaimed-e.ExpectedLast, e.ExpectedLast-e.Reclaimed) > 20<<20 || e.Overran {
		t.Errorf("the end of the victim: %+v", e)
	}
}

func TestPodWithinItsRequestStays(t *testing.T) {
	s := newScene(t, false, "")
	within := s.deploy(node.Workload{Name: "within", UsesMiB: 500, AsksMiB: 600})
	over := s.taker(node.Workload{Name: "over", UsesMiB: 400, AsksMiB: 10})
	s.takes(over, "memory")
	s.gone(&over.Pod)
	s.quiet("over")
	s.stays(&within)
}

func TestProtectedPodsStay(t *testing.T) {
	s := newScene(t, false, `protect: {podSelector: {matchLabels: {app: chosen}}}`)
	s.must(node.Workload{Name: "bare", UsesMiB: 250, AsksMiB: 0}.Bare(t.Context(), live, s.namespace))
	bare, err := live.Running(t.Context(), s.namespace, "bare")
	s.must(err)
	chosen := s.deploy(node.Workload{Name: "chosen", UsesMiB: 250, AsksMiB: 0})
	over := s.taker(node.Workload{Name: "over", UsesMiB: 400, AsksMiB: 390})
	s.takes(over, "memory")
	s.gone(&over.Pod)
	s.quiet("over")
	s.stays(&bare)
	s.stays(&chosen)
}

func TestEventTellsWhyAfterThePodHasGone(t *testing.T) {
	s := newScene(t, false, "")
	greedy := s.taker(node.Workload{Name: "greedy", UsesMiB: 1000, AsksMiB: 50})
	s.takes(greedy, "memory")
	s.gone(&greedy.Pod)
	s.quiet("greedy")
	s.until("an Event gives the reason", func(ctx context.Context) bool {
		return s.event(ctx, &greedy.Pod, "EvictionRequested") != ""
	})
	message := s.event(t.Context(), &greedy.Pod, "EvictionRequested")
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
	evicted := map[string]string{"signal": node.PodMemory, "outcome": "Evicted", "dry_run": "false"}
	count, there := node.Value(before, "evictd_evictions_total", evicted)
	if !there {
		t.Fatal("evictd_evictions_total does not have all its label values from the start")
	}
	greedy := s.taker(node.Workload{Name: "greedy", UsesMiB: 1000, AsksMiB: 50})
	s.takes(greedy, "memory")
	s.gone(&greedy.Pod)
	s.quiet("greedy")
	after, err := live.Metrics(t.Context())
	s.must(err)
	if now, _ := node.Value(after, "evictd_evictions_total", evicted); now < count+1 {
		t.Errorf("evictd_evictions_total = %v, was %v before an eviction", now, count)
	}
	if n, _ := node.Value(after, "evictd_reaction_seconds", nil); n < 1 {
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
	s := newScene(t, true, "")
	s.deploy(node.Workload{Name: "second", UsesMiB: 50, AsksMiB: 100})
	s.deploy(node.Workload{Name: "first", UsesMiB: 100, AsksMiB: 10})
	s.must(live.WriteRankConfiguration())
	var table, order []string
	s.until("both pods hold their memory", func(ctx context.Context) bool {
		table, order = s.rank(ctx)
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

// rank runs `evictd rank` and returns the table's lines and the names in the
// order of the JSON.
func (s *scene) rank(ctx context.Context) (table, order []string) {
	s.Helper()
	run := func(format string) []byte {
		var complaints bytes.Buffer
		command := exec.CommandContext(ctx, live.Files.Binary, append(live.RankArguments(), "-o", format)...)
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
