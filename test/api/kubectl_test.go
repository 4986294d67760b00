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
// It is the same where the API server, or a proxy before it, knows no WebSockets.
func nodesWithAnAgentDown(t *testing.T, c *plugin) {
	t.Helper()
	c.Press()
	c.ExpectVictims("large")
	c.evictds[2].Kill()
	got := c.kubectl(t.Context(), "nodes", "-n", c.Namespace, "--timeout=2m")
	t.Logf("kubectl evictd nodes:\n%s%s", got.stdout, got.stderr)
	c.expectNodes(got)
	posted := newPostOnly(t)
	c.kubeconfig = posted.kubeconfig(t)
	c.expectNodes(c.kubectl(t.Context(), "nodes", "-n", c.Namespace, "--parallel=1", "--timeout=2m"))
	if posted.refused.Load() == 0 || posted.upgraded.Load() == 0 {
		t.Errorf("%d WebSockets were refused and %d requests upgraded by POST, want some of each", posted.refused.Load(), posted.upgraded.Load())
	}
}

// What else may be wrong with one node: each has its own sentence, and the other's line is printed.
func nodesSaysWhatIsWrong(t *testing.T, c *plugin) {
	t.Helper()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	c.Must(err)
	t.Cleanup(func() { _ = silent.Close() })
	hung := &streamingKubelet{agent: silent.Addr().String(), ports: map[int32]bool{agentPort: true}}
	hung.start(t)
	gone := &streamingKubelet{}
	gone.start(t)
	gone.server.Close()
	other := &streamingKubelet{agent: c.evictds[1].Address}
	other.start(t)
	for _, test := range []struct {
		name string
		k    *streamingKubelet
		want string
	}{
		{"the agent hangs", hung, `no answer from pod NS/POD within 2s`},
		{"the kubelet is down", gone, `no answer from pod NS/POD: error dialing backend: dial tcp 127\.0\.0\.1:\d+: connect: connection refused`},
		{"the pod has no such port", other, `no answer from pod NS/POD: its kubelet cannot connect to its port 9464: pod evictd-\w+ has no port 9464`},
	} {
		c.announce(c.nodes[1], test.k)
		want := regexp.MustCompile("^evictd: node " + c.nodes[1] + ": " + strings.ReplaceAll(test.want, "NS/POD", c.Namespace+`/evictd-\w+`) + "\n$")
		var got result
		c.World.Until(test.name, func(ctx context.Context) bool { // on a slow machine the others may be late, too
			got = c.kubectl(ctx, "nodes", "-n", c.Namespace, "--timeout=2s")
			return want.MatchString(got.stderr) && got.code == 1 && strings.Count(got.stdout, "\n") == 3 && strings.Contains(got.stdout, c.nodes[0]+" ")
		}, func() string { return fmt.Sprintf("want %v and two nodes, got %+v", want, got) })
	}
	c.announce(c.nodes[1], c.kubelets[1])
}

// expectNodes compares what `nodes` says while the third agent is down.
func (c *plugin) expectNodes(got result) {
	c.T.Helper()
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "NODE ") {
		c.T.Fatalf("stdout:\n%s\nwant a header and two lines; stderr:\n%s", got.stdout, got.stderr)
	}
	for i, want := range []string{
		c.nodes[0] + ` +acts +(none|memory\.available in grace or transition) +memory\.available [0-9.]+[MG]i above hard(, hard in \S+)? +\d+[sm]\S* ago ` + c.Namespace + `/large +\d+[sm]\S* ago +\S+$`,
		c.nodes[1] + ` +dry run +none +memory\.available 7\.5Gi above hard +none +\d+[sm]\S* ago +\S+$`,
	} {
		if !regexp.MustCompile("^" + want).MatchString(lines[i+1]) {
			c.T.Errorf("line %d is\n%s\nwant\n%s", i+1, lines[i+1], want)
		}
	}
	want := `^evictd: node ` + c.nodes[2] + `: no answer from pod ` + c.Namespace + `/evictd-\w+: its kubelet cannot connect to its port 9464: dial tcp .*: connection refused\n$`
	if !regexp.MustCompile(want).MatchString(got.stderr) {
		c.T.Errorf("stderr:\n%s\nwant one line:\n%s", got.stderr, want)
	}
	if got.code != 1 {
		c.T.Errorf("exit code %d, want 1", got.code)
	}
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
		{"usage", []string{"rank", c.Node, "-n", c.Namespace, "--signal=memory"}, 2, "", `--signal "memory": no such signal`},
		{"why", []string{"why", c.Namespace + "/small", "--evictd-namespace", c.Namespace}, 0, c.Namespace + "/small", ""},
		{"why by flag", []string{"why", "-n", c.Namespace, "small", "--evictd-namespace", c.Namespace}, 0, c.Namespace + "/small", ""},
		{"doctor", []string{"doctor", c.Node, "-n", c.Namespace}, 1, "CHECK", ""},
		{"no such node", []string{"rank", "none", "-n", c.Namespace}, 1, "", "node none has no such pod"},
		{"no such pod", []string{"why", c.Namespace + "/none", "--evictd-namespace", c.Namespace}, 1, "", `pods "none" not found`},
	} {
		got := c.kubectl(t.Context(), test.args...)
		if got.code != test.code || !strings.Contains(got.stdout, test.out) || !strings.Contains(got.stderr, test.stderr) ||
			(test.stderr == "") != (got.stderr == "") || (test.out == "") != (got.stdout == "") {
			t.Errorf("%s: exit code %d, want %d\nstdout, with %q:\n%s\nstderr, with %q:\n%s",
				test.name, got.code, test.code, test.out, got.stdout, test.stderr, got.stderr)
		}
	}
	for typed, want := range map[string]string{
		"rank|-n|" + c.Namespace + "|" + c.nodes[1]: c.nodes[1] + "\n:4\n",
		"why|" + c.Namespace + "/la":                c.Namespace + "/large\n:4\n",
		"rank|--signal|":                            "memory.available\nkubeletMemory.available\n",
		"doc":                                       "doctor\t",
	} {
		var got result
		c.World.Until(typed+" is completed", func(ctx context.Context) bool { // a completion has a limit of its own
			got = c.run(ctx, "kubectl_complete-evictd", strings.Split("--kubeconfig|"+c.kubeconfig+"|"+typed, "|")...)
			return strings.HasPrefix(got.stdout, want)
		}, func() string { return fmt.Sprintf("want %q, got %+v", want, got) })
	}
}

// An account that lacks a right is told which, in one sentence however many nodes there are.
func namesTheMissingRight(t *testing.T, c *plugin) {
	t.Helper()
	list := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "get"}}
	forward := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}}
	nothing, listing, forwarding := c.account("nothing"), c.account("list", list), c.account("forward", list, forward)
	for _, test := range []struct {
		name, kubeconfig string
		args             []string
		want             string
	}{
		{"nodes without any", nothing, []string{"nodes", "-n", c.Namespace}, "looking for evictd's pods: the API server forbids it: the account lacks the right to list pods in namespace NS"},
		{"nodes without port-forward", listing, []string{"nodes", "-n", c.Namespace}, "asking the agents: the API server forbids it: the account lacks the right to create pods/portforward in namespace NS"},
		{"rank without exec", forwarding, []string{"rank", c.Node, "-n", c.Namespace}, "running evictd rank in pod NS/POD on node " + c.Node + ": the API server forbids it: the account lacks the right to create pods/exec in namespace NS"},
		{"why without any", nothing, []string{"why", c.Namespace + "/large", "--evictd-namespace", c.Namespace}, "looking for the pod: the API server forbids it: the account lacks the right to get pods in namespace NS"},
	} {
		c.kubeconfig = test.kubeconfig
		got := c.kubectl(t.Context(), test.args...)
		said := regexp.MustCompile(`NS/evictd-\w+`).ReplaceAllString(strings.ReplaceAll(got.stderr, c.Namespace, "NS"), "NS/POD")
		if want := "evictd: " + strings.ReplaceAll(test.want, c.Namespace, "NS") + "\n"; said != want || got.stdout != "" || got.code != 1 {
			t.Errorf("%s: exit code %d, stdout %q, stderr\n%s\nwant\n%s", test.name, got.code, got.stdout, said, want)
		}
	}
	c.kubeconfig = forwarding
	if got := c.kubectl(t.Context(), "nodes", "-n", c.Namespace, "--timeout=2m"); got.code != 0 || strings.Count(got.stdout, "\n") != 4 || got.stderr != "" {
		t.Errorf("with the rights to list and to forward: %+v", got)
	}
	c.kubeconfig = evictdtest.Cluster().Kubeconfig()
}
