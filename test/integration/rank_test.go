package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// machine is a recorded cgroup tree with the pods of a test, as `evictd rank` reads it below
// --host-root. There is no kubelet that would create real ones.
type machine struct {
	*world

	root, config, binary, kubeconfig string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{world: newWorld(t), root: t.TempDir(), kubeconfig: shared.Kubeconfig()}
	var err error
	m.binary, err = built()
	m.must(err)
	m.write("proc/meminfo", "MemTotal: 25165824 kB\nMemFree: 19099488 kB\nMemAvailable: 1048576 kB\nBuffers: 0 kB\nCached: 4194304 kB\n"+
		"Shmem: 2048 kB\nSlab: 200000 kB\nSReclaimable: 150000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nHugePages_Total: 0\nHugepagesize: 2048 kB\n")
	m.write("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
	m.group("", 1<<30)
	m.config = filepath.Join(m.root, "evictd.yaml")
	m.write("evictd.yaml", "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\nprotect: {barePods: false, withinRequests: never}\n")
	return m
}

func (m *machine) write(path, content string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	m.must(os.MkdirAll(filepath.Dir(path), 0o700))
	m.must(os.WriteFile(path, []byte(content), 0o600))
}

// group creates a cgroup below kubepods with that usage in bytes.
func (m *machine) group(name string, used int64) {
	m.t.Helper()
	dir := filepath.Join("sys/fs/cgroup/kubepods.slice", name)
	m.write(filepath.Join(dir, "memory.current"), fmt.Sprintln(used))
	m.write(filepath.Join(dir, "memory.stat"), fmt.Sprintf("anon %d\nfile 0\ninactive_file 0\nshmem 0\n", used))
	m.write(filepath.Join(dir, "memory.max"), "max\n")
	m.write(filepath.Join(dir, "pids.current"), "3\n")
}

// running creates a pod with a request of 100 MiB and that usage.
func (m *machine) running(name string, mebibytes int64) *corev1.Pod {
	m.t.Helper()
	pod := m.pod(name, 100)
	m.group("kubepods-burstable.slice/kubepods-burstable-pod"+strings.ReplaceAll(string(pod.UID), "-", "_")+".slice", mebibytes<<20)
	return pod
}

// rank calls `evictd rank` on the machine.
func (m *machine) rank(args ...string) (stdout, stderr string) {
	m.t.Helper()
	return m.call(append([]string{
		"rank", "--node-name", m.node, "--kubeconfig", m.kubeconfig, "--config", m.config, "--host-root", m.root,
	}, args...)...)
}

func (m *machine) call(args ...string) (stdout, stderr string) {
	m.t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(m.t.Context(), m.binary, args...)
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		m.t.Fatalf("evictd %q: %v: %s", args, err, errs.String())
	}
	return out.String(), errs.String()
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

func (m *machine) report(text string) report {
	m.t.Helper()
	var r report
	m.must(json.Unmarshal([]byte(text), &r))
	return r
}

// The budget column is the real API server's response, the dry runs change no pod and no
// budget, and the saved snapshot gives the same ranking without the cluster.
func TestRankShowsBudgetsAndIsRankedAgainFromASnapshot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.running("guarded", 400)
	m.running("allowed", 300)
	m.running("free", 200)
	m.running("twice", 150)
	m.budget("guard", "guarded")
	b := m.budget("slack", "allowed")
	none := intstr.FromInt32(0)
	b.Spec.MinAvailable = &none
	_, err := m.client.PolicyV1().PodDisruptionBudgets(m.namespace).Update(t.Context(), b, metav1.UpdateOptions{})
	m.must(err)
	m.until("slack allows one", func(ctx context.Context) bool {
		b, err = m.client.PolicyV1().PodDisruptionBudgets(m.namespace).Get(ctx, "slack", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DisruptionsAllowed == 1
	})
	m.budget("one", "twice")
	m.budget("two", "twice")

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
		if m.terminating(name) {
			t.Errorf("%s is terminating: the question evicted it", name)
		}
	}
	b, err = m.client.PolicyV1().PodDisruptionBudgets(m.namespace).Get(t.Context(), "slack", metav1.GetOptions{})
	m.must(err)
	if b.Status.DisruptionsAllowed != 1 || len(b.Status.DisruptedPods) != 0 {
		t.Errorf("the questions used the budget up: %+v", b.Status)
	}

	again, _ := m.call("rank", "--snapshot", file, "-o", "json")
	if again != text {
		t.Errorf("from the snapshot:\n%s\nwant, as it was seen:\n%s", again, text)
	}
	why, _ := m.call("rank", "--snapshot", file, "--why", m.namespace+"/allowed")
	for _, words := range []string{"candidate 2 of 4", m.namespace + "/guarded, goes before it", m.namespace + "/free, goes after it", "Budget: allowed"} {
		if !strings.Contains(why, words) {
			t.Errorf("the story lacks %q:\n%s", words, why)
		}
	}
	m.sawDryRunsOnly("allowed")
}

// sawDryRunsOnly fails unless the audit log has evictions of the pod and all of them were
// dry runs of evictd.
func (m *machine) sawDryRunsOnly(name string) {
	m.t.Helper()
	text, err := os.ReadFile(shared.AuditLog())
	m.must(err)
	seen := 0
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "/namespaces/"+m.namespace+"/pods/"+name+"/eviction") {
			continue
		}
		seen++
		if !strings.Contains(line, `"dryRun":["All"]`) || !strings.Contains(line, `"userAgent":"evictd/`) {
			m.t.Errorf("no dry run of evictd's: %s", line)
		}
	}
	if seen == 0 {
		m.t.Error("the audit log has no eviction of " + name)
	}
}

// resolved makes the paths in a kubeconfig absolute, so that it can be written elsewhere.
func resolved(file *clientcmdapi.Config) *clientcmdapi.Config {
	_ = clientcmd.ResolveLocalPaths(file) // a missing file shows when it is used
	return file
}
