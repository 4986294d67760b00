package api

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// The plugin before three agents, of which one ends at last.
func TestKubectlPlugin(t *testing.T) { //nolint:tparallel // the steps are of one cluster, one after the other
	t.Parallel()
	c := newPlugin(t, 3)
	t.Run("runs in the agent's pod", func(t *testing.T) { runsInTheAgentsPod(t, c) })
	t.Run("names the missing right", func(t *testing.T) { namesTheMissingRight(t, c) })
	t.Run("nodes says what is wrong", func(t *testing.T) { nodesSaysWhatIsWrong(t, c) })
	t.Run("nodes with an agent down", func(t *testing.T) { nodesWithAnAgentDown(t, c) })
}

// Three agents, one of them down: a line for each that answers and one sentence about the other.
func nodesWithAnAgentDown(t *testing.T, c *plugin) {
	t.Helper()
	c.Press()
	c.ExpectVictims("large")
	c.evictds[2].Kill()
	got := c.kubectl(t.Context(), "nodes", "-n", c.Namespace, "--timeout=2m")
	t.Logf("kubectl evictd nodes:\n%s%s", got.stdout, got.stderr)
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "NODE ") {
		t.Fatalf("stdout:\n%s\nwant a header and two lines; stderr:\n%s", got.stdout, got.stderr)
	}
	for i, want := range []string{
		c.nodes[0] + ` +acts +(none|memory\.available in grace or transition) +\d+[sm]\S* ago ` + c.Namespace + `/large +\d+[sm]\S* ago +\S+$`,
		c.nodes[1] + ` +dry run +none +none +\d+[sm]\S* ago +\S+$`,
	} {
		if !regexp.MustCompile("^" + want).MatchString(lines[i+1]) {
			t.Errorf("line %d is\n%s\nwant\n%s", i+1, lines[i+1], want)
		}
	}
	want := "^evictd: node " + c.nodes[2] + ": no answer from pod " + c.Namespace + `/evictd-\w+: evictd: asking evictd at .*: connection refused; run this in .*\n$`
	if !regexp.MustCompile(want).MatchString(got.stderr) || got.code != 1 {
		t.Errorf("exit code %d, stderr:\n%s\nwant 1 and one line:\n%s", got.code, got.stderr, want)
	}
}

// What else may be wrong with one node: each has its own sentence, and the other's line is printed.
func nodesSaysWhatIsWrong(t *testing.T, c *plugin) {
	t.Helper()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	c.Must(err)
	t.Cleanup(func() { _ = silent.Close() })
	hung := &streamingKubelet{agent: silent.Addr().String(), paths: c.kubelets[1].paths}
	hung.start(t)
	gone := &streamingKubelet{}
	gone.start(t)
	gone.server.Close()
	for _, test := range []struct {
		name string
		k    *streamingKubelet
		want string
	}{
		{"the agent hangs", hung, `no answer from pod NS/POD within 5s`},
		{"the kubelet is down", gone, `no answer from pod NS/POD: .*dial tcp 127\.0\.0\.1:\d+: connect: connection refused.*`},
	} {
		c.announce(c.nodes[1], test.k)
		want := regexp.MustCompile("^evictd: node " + c.nodes[1] + ": " + strings.ReplaceAll(test.want, "NS/POD", c.Namespace+`/evictd-\w+`) + "\n$")
		var got result
		c.World.Until(test.name, func(ctx context.Context) bool { // on a slow machine the others may be late, too
			got = c.kubectl(ctx, "nodes", "-n", c.Namespace, "--timeout=5s")
			return want.MatchString(got.stderr) && got.code == 1 && strings.Count(got.stdout, "\n") == 3 && strings.Contains(got.stdout, c.nodes[0]+" ")
		}, func() string { return fmt.Sprintf("want %v and two nodes, got %+v", want, got) })
	}
	c.announce(c.nodes[1], c.kubelets[1])
}

// The other commands run in the pod of the node's agent: its output and exit code are passed on.
func runsInTheAgentsPod(t *testing.T, c *plugin) {
	t.Helper()
	for _, test := range []struct {
		name   string
		args   []string
		code   int
		out    string
		stderr string
	}{
		{"rank", []string{"rank", c.Node, "-n", c.Namespace}, 0, "1     " + c.Namespace + "/large ", ""},
		{"rank with flags", []string{"rank", c.Node, "-n", c.Namespace, "-o", "json"}, 0, `"name": "large"`, ""},
		{"rank of an empty node", []string{"rank", c.nodes[1], "-n", c.Namespace}, 0, c.Namespace + "/evictd-", ""},
		{"usage", []string{"rank", c.Node, "-n", c.Namespace, "--signal=memory"}, 2, "", `--signal: unknown signal "memory"`},
		{"why", []string{"why", c.Namespace + "/small", "--evictd-namespace", c.Namespace}, 0, c.Namespace + "/small", ""},
		{"why by flag", []string{"why", "-n", c.Namespace, "small", "--evictd-namespace", c.Namespace}, 0, c.Namespace + "/small", ""},
		{"doctor", []string{"doctor", c.Node, "-n", c.Namespace}, 1, "CHECK", "command terminated with exit code 1"},
		{"no such node", []string{"rank", "none", "-n", c.Namespace}, 1, "", "node none has no pod of a DaemonSet"},
		{"no such pod", []string{"why", c.Namespace + "/none", "--evictd-namespace", c.Namespace}, 1, "", `pods "none" not found`},
	} {
		got := c.kubectl(t.Context(), test.args...)
		if got.code != test.code || !strings.Contains(got.stdout, test.out) || !strings.Contains(got.stderr, test.stderr) ||
			(test.stderr == "") != (got.stderr == "") || (test.out == "") != (got.stdout == "") {
			t.Errorf("%s: exit code %d, want %d\nstdout, with %q:\n%s\nstderr, with %q:\n%s",
				test.name, got.code, test.code, test.out, got.stdout, test.stderr, got.stderr)
		}
	}
}

// What an account may not do, kubectl names, and the script passes it on.
func namesTheMissingRight(t *testing.T, c *plugin) {
	t.Helper()
	list := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "get"}}
	nothing, listing := c.account("nothing"), c.account("list", list)
	for _, test := range []struct {
		name, kubeconfig string
		args             []string
		want             string
	}{
		{"nodes without any", nothing, []string{"nodes", "-n", c.Namespace}, `cannot list resource "pods"`},
		{"nodes without exec", listing, []string{"nodes", "-n", c.Namespace}, `cannot create resource "pods/exec"`},
		{"rank without exec", listing, []string{"rank", c.Node, "-n", c.Namespace}, `cannot create resource "pods/exec"`},
		{"why without any", nothing, []string{"why", c.Namespace + "/large", "--evictd-namespace", c.Namespace}, `cannot get resource "pods"`},
	} {
		c.kubeconfig = test.kubeconfig
		var got result
		c.World.Until(test.name+" is refused", func(ctx context.Context) bool { // the API server learns of a Role in a moment
			got = c.kubectl(ctx, test.args...)
			return strings.Contains(got.stderr, test.want) && got.stdout == "" && got.code == 1
		}, func() string { return fmt.Sprintf("want %q, got %+v", test.want, got) })
	}
	c.kubeconfig = evictdtest.Cluster().Kubeconfig()
}
