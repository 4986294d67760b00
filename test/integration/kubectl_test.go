package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// agentPort is the port of evictd's container in these tests.
const agentPort = 9464

// cohort is a DaemonSet of evictd on several nodes, each of which is a process of evictd and a
// kubelet of the test. The first is the scene's own.
type cohort struct {
	*scene

	nodes      []string
	daemons    []*daemon
	kubelets   []*kubelet
	dir        string // has the plugin under the names that kubectl looks for
	kubeconfig string
}

// newCohort starts that many agents. Those after the first are in dry run.
func newCohort(t *testing.T, agents int) *cohort {
	t.Helper()
	c := &cohort{scene: newScene(t), dir: t.TempDir(), kubeconfig: shared.Kubeconfig()}
	binary, err := built()
	c.must(err)
	for _, name := range []string{"kubectl-evictd", "kubectl_complete-evictd"} {
		c.must(os.Symlink(binary, filepath.Join(c.dir, name)))
	}
	c.start()
	for i := range agents {
		node, h, d := c.node, c.host, c.daemon
		if i > 0 {
			node, h = c.node+string(rune('a'+i)), newHost(t)
			c.addNode(node)
			d = startDaemon(t, h, node, c.link.address, c.proxy.ca.pem, c.token, defaultSettings+lenient+"dryRun: true\n")
		}
		k := &kubelet{
			agent: d.address, ports: map[int32]bool{agentPort: true},
			paths: map[string]string{"/host": h.root, "/etc/evictd/evictd.yaml": d.config, "/evictd": binary},
			more:  []string{"--kubeconfig=" + shared.Kubeconfig()},
		}
		k.start(t)
		c.announce(node, k)
		c.nodes, c.daemons, c.kubelets = append(c.nodes, node), append(c.daemons, d), append(c.kubelets, k)
	}
	c.ship()
	for _, d := range c.daemons {
		c.within("every evictd is ready", func() bool { status, _ := d.get("/readyz"); return status == http.StatusOK })
	}
	return c
}

func (c *cohort) addNode(name string) {
	c.t.Helper()
	nodes := c.client.CoreV1().Nodes()
	_, err := nodes.Create(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must(err)
	c.t.Cleanup(func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// announce says where the node's kubelet listens, and labels the node for the DaemonSet.
func (c *cohort) announce(name string, k *kubelet) {
	c.t.Helper()
	for _, patch := range []struct{ subresource, change string }{
		{"", fmt.Sprintf(`{"metadata": {"labels": {"cohort": %q}}}`, c.namespace)},
		{"status", fmt.Sprintf(`{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": %s}}}}`, k.port())},
	} {
		_, err := c.client.CoreV1().Nodes().Patch(c.t.Context(), name, types.MergePatchType, []byte(patch.change), metav1.PatchOptions{}, patch.subresource)
		c.must(err)
	}
}

// ship creates the DaemonSet. Its controller makes a pod for each node; the test binds them, as the
// scheduler does, and has them run, as the kubelet does.
func (c *cohort) ship() {
	c.t.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "evictd"}
	sets, pods := c.client.AppsV1().DaemonSets(c.namespace), c.client.CoreV1().Pods(c.namespace)
	_, err := sets.Create(c.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "evictd"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"cohort": c.namespace},
					Containers: []corev1.Container{{
						Name: "evictd", Image: "none",
						Args:  []string{"run", "--config=/etc/evictd/evictd.yaml", "--host-root=/host", "--http-bind-address=:9464", "--log-level", "debug"},
						Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: agentPort}},
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	c.must(err)
	c.t.Cleanup(func() { _ = sets.Delete(context.Background(), "evictd", metav1.DeleteOptions{}) })
	var made *corev1.PodList
	c.until("each node has its pod", func(ctx context.Context) bool {
		made, err = pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=evictd"})
		return err == nil && len(made.Items) == len(c.nodes)
	})
	for i := range made.Items {
		pod := &made.Items[i]
		term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		c.must(pods.Bind(c.t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: term.MatchFields[0].Values[0]},
		}, metav1.CreateOptions{}))
		_, err := pods.Patch(c.t.Context(), pod.Name, types.MergePatchType, []byte(`{"status": {"phase": "Running", "containerStatuses": [`+
			`{"name": "evictd", "image": "none", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]}}`), metav1.PatchOptions{}, "status")
		c.must(err)
	}
}

// result is what a command printed, and its exit code.
type result struct {
	stdout, stderr string
	code           int
}

// kubectl runs `kubectl evictd` with the arguments, as kubectl runs a plugin.
func (c *cohort) kubectl(args ...string) result {
	c.t.Helper()
	return c.run("kubectl-evictd", append(args, "--kubeconfig", c.kubeconfig)...)
}

func (c *cohort) run(name string, args ...string) result {
	c.t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(c.t.Context(), filepath.Join(c.dir, name), args...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		c.t.Fatal(err)
	}
	return result{out.String(), errs.String(), command.ProcessState.ExitCode()}
}

// Three agents, one of them down: a line for each that answers and one sentence about the other.
// It is the same where the API server, or a proxy before it, knows no WebSockets.
func TestKubectlNodesWithAnAgentDown(t *testing.T) {
	t.Parallel()
	c := newCohort(t, 3)
	c.pressed()
	c.within("a pod was evicted", func() bool { return slices.Contains(c.hand.taken(), "large") })
	c.within("the pressure is over", c.relieved)
	c.daemons[2].kill()
	got := c.kubectl("nodes", "-n", c.namespace)
	t.Logf("kubectl evictd nodes:\n%s%s", got.stdout, got.stderr)
	c.expectNodes(got)
	posted := newPostOnly(t)
	c.kubeconfig = posted.kubeconfig(t)
	c.expectNodes(c.kubectl("nodes", "-n", c.namespace, "--parallel=1"))
	if posted.refused.Load() == 0 || posted.upgraded.Load() == 0 {
		t.Errorf("%d WebSockets were refused and %d requests upgraded by POST, want some of each", posted.refused.Load(), posted.upgraded.Load())
	}
}

// What else may be wrong with one node: each has its own sentence, and the other's line is printed.
func TestKubectlNodesSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := newCohort(t, 2)
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	c.must(err)
	t.Cleanup(func() { _ = silent.Close() })
	hung := &kubelet{agent: silent.Addr().String(), ports: map[int32]bool{agentPort: true}}
	hung.start(t)
	gone := &kubelet{}
	gone.start(t)
	gone.server.Close()
	other := &kubelet{agent: c.daemons[1].address}
	other.start(t)
	for _, test := range []struct {
		name string
		k    *kubelet
		want string
	}{
		{"the agent hangs", hung, `no answer from pod NS/POD within 2s`},
		{"the kubelet is down", gone, `no answer from pod NS/POD: error dialing backend: dial tcp 127\.0\.0\.1:\d+: connect: connection refused`},
		{"the pod has no such port", other, `no answer from pod NS/POD: its kubelet cannot connect to its port 9464: pod evictd-\w+ has no port 9464`},
	} {
		c.announce(c.nodes[1], test.k)
		got := c.kubectl("nodes", "-n", c.namespace, "--timeout=2s")
		want := "^evictd: node " + c.nodes[1] + ": " + strings.ReplaceAll(test.want, "NS/POD", c.namespace+`/evictd-\w+`) + "\n$"
		if !regexp.MustCompile(want).MatchString(got.stderr) || got.code != 1 || !strings.Contains(got.stdout, c.nodes[0]+" ") || strings.Count(got.stdout, "\n") != 2 {
			t.Errorf("%s: exit code %d, stdout\n%s\nstderr\n%s\nwant 1, one node and\n%s", test.name, got.code, got.stdout, got.stderr, want)
		}
	}
}

// expectNodes compares what `nodes` says while the third agent is down.
func (c *cohort) expectNodes(got result) {
	c.t.Helper()
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "NODE ") {
		c.t.Fatalf("stdout:\n%s\nwant a header and two lines; stderr:\n%s", got.stdout, got.stderr)
	}
	for i, want := range []string{
		c.nodes[0] + ` +acts +(none|memory\.available in grace or transition) +memory\.available [0-9.]+[MG]i above hard(, hard in \S+)? +\d+s ago ` + c.namespace + `/large +\d+s ago +\S+$`,
		c.nodes[1] + ` +dry run +none +memory\.available 7\.5Gi above hard +none +\d+s ago +\S+$`,
	} {
		if !regexp.MustCompile("^" + want).MatchString(lines[i+1]) {
			c.t.Errorf("line %d is\n%s\nwant\n%s", i+1, lines[i+1], want)
		}
	}
	want := `^evictd: node ` + c.nodes[2] + `: no answer from pod ` + c.namespace + `/evictd-\w+: its kubelet cannot connect to its port 9464: dial tcp .*: connection refused\n$`
	if !regexp.MustCompile(want).MatchString(got.stderr) {
		c.t.Errorf("stderr:\n%s\nwant one line:\n%s", got.stderr, want)
	}
	if got.code != 1 {
		c.t.Errorf("exit code %d, want 1", got.code)
	}
}

// The other commands run in the pod of the node's agent: its output and exit code are passed on.
func TestKubectlRunsInTheAgentsPod(t *testing.T) {
	t.Parallel()
	c := newCohort(t, 2)
	for _, test := range []struct {
		name   string
		args   []string
		code   int
		out    string
		stderr string
	}{
		{"rank", []string{"rank", c.node, "-n", c.namespace}, 0, "1     " + c.namespace + "/large ", ""},
		{"rank with flags", []string{"rank", c.node, "-n", c.namespace, "-o", "json", "--budgets=0"}, 0, `"name": "large"`, ""},
		{"rank of an empty node", []string{"rank", c.nodes[1], "-n", c.namespace}, 0, c.namespace + "/evictd-", ""},
		{"usage", []string{"rank", c.node, "-n", c.namespace, "--signal=memory"}, 2, "", `--signal "memory": no such signal`},
		{"why", []string{"why", c.namespace + "/small", "--evictd-namespace", c.namespace}, 0, c.namespace + "/small", ""},
		{"why by flag", []string{"why", "-n", c.namespace, "small", "--evictd-namespace", c.namespace}, 0, c.namespace + "/small", ""},
		{"doctor", []string{"doctor", c.node, "-n", c.namespace}, 1, "CHECK", ""},
		{"no such node", []string{"rank", "none", "-n", c.namespace}, 1, "", "node none has no such pod"},
		{"no such pod", []string{"why", c.namespace + "/none", "--evictd-namespace", c.namespace}, 1, "", `pods "none" not found`},
	} {
		got := c.kubectl(test.args...)
		if got.code != test.code || !strings.Contains(got.stdout, test.out) || !strings.Contains(got.stderr, test.stderr) ||
			(test.stderr == "") != (got.stderr == "") || (test.out == "") != (got.stdout == "") {
			t.Errorf("%s: exit code %d, want %d\nstdout, with %q:\n%s\nstderr, with %q:\n%s",
				test.name, got.code, test.code, test.out, got.stdout, test.stderr, got.stderr)
		}
	}
	for typed, want := range map[string]string{
		"rank|-n|" + c.namespace + "|" + c.nodes[1]: c.nodes[1] + "\n:4\n",
		"why|" + c.namespace + "/la":                c.namespace + "/large\n:4\n",
		"rank|--signal|":                            "memory.available\nkubeletMemory.available\n",
		"doc":                                       "doctor\t",
	} {
		if got := c.run("kubectl_complete-evictd", strings.Split("--kubeconfig|"+c.kubeconfig+"|"+typed, "|")...); !strings.HasPrefix(got.stdout, want) {
			t.Errorf("%s is completed with %q, want %q", typed, got.stdout, want)
		}
	}
}

// An account that lacks a right is told which, in one sentence however many nodes there are.
func TestKubectlNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	c := newCohort(t, 2)
	list := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "get"}}
	forward := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}}
	nothing, listing, forwarding := c.account("nothing"), c.account("list", list), c.account("forward", list, forward)
	for _, test := range []struct {
		name, kubeconfig string
		args             []string
		want             string
	}{
		{"nodes without any", nothing, []string{"nodes", "-n", c.namespace}, "looking for evictd's pods: the API server forbids it: the account lacks the right to list pods in namespace NS"},
		{"nodes without port-forward", listing, []string{"nodes", "-n", c.namespace}, "asking the agents: the API server forbids it: the account lacks the right to create pods/portforward in namespace NS"},
		{"rank without exec", forwarding, []string{"rank", c.node, "-n", c.namespace}, "running evictd rank in pod NS/POD on node " + c.node + ": the API server forbids it: the account lacks the right to create pods/exec in namespace NS"},
		{"why without any", nothing, []string{"why", c.namespace + "/large", "--evictd-namespace", c.namespace}, "looking for the pod: the API server forbids it: the account lacks the right to get pods in namespace NS"},
	} {
		c.kubeconfig = test.kubeconfig
		got := c.kubectl(test.args...)
		said := regexp.MustCompile(`NS/evictd-\w+`).ReplaceAllString(strings.ReplaceAll(got.stderr, c.namespace, "NS"), "NS/POD")
		if want := "evictd: " + strings.ReplaceAll(test.want, c.namespace, "NS") + "\n"; said != want || got.stdout != "" || got.code != 1 {
			t.Errorf("%s: exit code %d, stdout %q, stderr\n%s\nwant\n%s", test.name, got.code, got.stdout, said, want)
		}
	}
	c.kubeconfig = forwarding
	if got := c.kubectl("nodes", "-n", c.namespace); got.code != 0 || strings.Count(got.stdout, "\n") != 3 || got.stderr != "" {
		t.Errorf("with the rights to list and to forward: %+v", got)
	}
}

// account returns a kubeconfig of an account with these rights in the namespace.
func (c *cohort) account(name string, rules ...rbacv1.PolicyRule) string {
	c.t.Helper()
	ctx, user := c.t.Context(), c.namespace+"-"+name
	_, err := c.client.RbacV1().Roles(c.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.client.RbacV1().RoleBindings(c.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	c.must(err)
	file, err := clientcmd.LoadFromFile(shared.Kubeconfig())
	c.must(err)
	file = resolved(file)
	for _, info := range file.AuthInfos {
		info.Impersonate = user
	}
	path := filepath.Join(c.t.TempDir(), "kubeconfig")
	c.must(clientcmd.WriteToFile(*file, path))
	if len(rules) > 0 {
		c.within("the API server knows the rights of "+name, func() bool {
			got := c.run("kubectl-evictd", "nodes", "-n", c.namespace, "--kubeconfig", path)
			return got.code == 0 || strings.Contains(got.stderr, "portforward")
		})
	}
	return path
}

// postOnly is a proxy before the API server that refuses WebSockets.
type postOnly struct {
	server            *httptest.Server
	refused, upgraded atomic.Int32 // requests
}

func newPostOnly(t *testing.T) *postOnly {
	t.Helper()
	config := shared.RESTConfig()
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &postOnly{}
	behind := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: trust}, // HTTP/1.1, which alone can be upgraded
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") == "websocket":
			p.refused.Add(1)
			http.Error(w, "no WebSockets here", http.StatusBadRequest)
			return
		case r.Header.Get("Upgrade") != "":
			p.upgraded.Add(1)
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// kubeconfig leads to the proxy, which has the administrator's credentials.
func (p *postOnly) kubeconfig(t *testing.T) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: p.server.URL}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	file.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}
