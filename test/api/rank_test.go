package api

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// ranking is `evictd rank` on a node with the pods of a test.
type ranking struct {
	*evictdtest.World
	*command
}

// running creates a pod with a request of 100 MiB and that usage.
func (m *ranking) running(name string, mebibytes int64) {
	m.T.Helper()
	m.host.Run(m.Pod(name, 100), mebibytes)
}

func (m *ranking) rank(args ...string) (stdout, stderr string) {
	m.T.Helper()
	return m.onNode(m.T.Context(), "rank", m.Node, evictdtest.Cluster().Kubeconfig(), args...)
}

// report is the part of the JSON that the tests use.
type report struct {
	Candidates []struct {
		Rank   int    `json:"rank"`
		Name   string `json:"name"`
		UID    string `json:"uid"`
		Budget *struct {
			Outcome string `json:"outcome"`
			Budget  string `json:"budget"`
			Message string `json:"message"`
		} `json:"budget"`
	} `json:"candidates"`
}

func (m *ranking) report(text string) report {
	m.T.Helper()
	var r report
	m.Must(json.Unmarshal([]byte(text), &r))
	return r
}

// The budget column is the real API server's response, the dry runs change no pod and no
// budget, and the saved snapshot gives the same ranking without the cluster.
func TestRankShowsBudgetsAndIsRankedAgainFromASnapshot(t *testing.T) {
	t.Parallel()
	m := &ranking{evictdtest.NewWorld(t), newCommand(t, "protect: {barePods: false, withinRequests: never}\n")}
	m.running("guarded", 400)
	m.running("allowed", 300)
	m.running("free", 200)
	m.running("twice", 150)
	m.Budget("guard", "guarded")
	b := m.Budget("slack", "allowed")
	none := intstr.FromInt32(0)
	b.Spec.MinAvailable = &none
	_, err := m.Client.PolicyV1().PodDisruptionBudgets(m.Namespace).Update(t.Context(), b, metav1.UpdateOptions{})
	m.Must(err)
	m.Until("slack allows one", func(ctx context.Context) bool {
		b, err = m.Client.PolicyV1().PodDisruptionBudgets(m.Namespace).Get(ctx, "slack", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DisruptionsAllowed == 1
	})
	m.Budget("one", "twice")
	m.Budget("two", "twice")

	file := filepath.Join(t.TempDir(), "node.json")
	text, complaints := m.rank("-o", "json", "--save", file)
	if complaints != "" {
		t.Errorf("stderr: %s", complaints)
	}
	want := []struct{ name, outcome, budget string }{
		{"guarded", "BlockedByBudget", "guard"}, {"allowed", "WouldEvict", ""}, {"free", "WouldEvict", ""}, {"twice", "Misconfigured", ""},
	}
	got := m.report(text)
	if len(got.Candidates) != len(want) {
		t.Fatalf("candidates: %s", text)
	}
	for i, w := range want {
		c := got.Candidates[i]
		if c.Name != w.name || c.Rank != i+1 || c.UID == "" || c.Budget == nil || c.Budget.Outcome != w.outcome || c.Budget.Budget != w.budget {
			t.Errorf("candidate %d is %+v with %+v, want %+v", i+1, c, c.Budget, w)
		}
	}

	table, _ := m.rank()
	for _, words := range []string{"blocked by guard", "allowed", "several budgets"} {
		if !strings.Contains(table, words) {
			t.Errorf("the table lacks %q:\n%s", words, table)
		}
	}
	for _, name := range []string{"guarded", "allowed", "free", "twice"} {
		if m.Terminating(name) {
			t.Errorf("%s is terminating: the question evicted it", name)
		}
	}
	b, err = m.Client.PolicyV1().PodDisruptionBudgets(m.Namespace).Get(t.Context(), "slack", metav1.GetOptions{})
	m.Must(err)
	if b.Status.DisruptionsAllowed != 1 || len(b.Status.DisruptedPods) != 0 {
		t.Errorf("the questions used the budget up: %+v", b.Status)
	}

	again, _ := m.call(t.Context(), "rank", "--snapshot", file, "-o", "json")
	if again != text {
		t.Errorf("from the snapshot:\n%s\nwant, as it was seen:\n%s", again, text)
	}
	why, _ := m.call(t.Context(), "rank", "--snapshot", file, "--why", m.Namespace+"/allowed")
	for _, words := range []string{"candidate 2 of 4", m.Namespace + "/guarded, goes before it", m.Namespace + "/free, goes after it", "Budget: allowed"} {
		if !strings.Contains(why, words) {
			t.Errorf("the story lacks %q:\n%s", words, why)
		}
	}
	m.sawDryRunsOnly("allowed")
}

// sawDryRunsOnly fails unless the audit log has evictions of the pod and all of them were
// dry runs of evictd.
func (m *ranking) sawDryRunsOnly(name string) {
	m.T.Helper()
	text, err := os.ReadFile(evictdtest.Cluster().AuditLog())
	m.Must(err)
	seen := 0
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "/namespaces/"+m.Namespace+"/pods/"+name+"/eviction") {
			continue
		}
		seen++
		if !strings.Contains(line, `"dryRun":["All"]`) || !strings.Contains(line, `"userAgent":"evictd/`) {
			m.T.Errorf("no dry run of evictd's: %s", line)
		}
	}
	if seen == 0 {
		m.T.Error("the audit log has no eviction of " + name)
	}
}
