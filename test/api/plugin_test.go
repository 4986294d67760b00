package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// plugin is `kubectl evictd`, with the real kubectl, before a DaemonSet of evictd on several nodes, each of
// which is a process of evictd and a streaming kubelet. The first node is the agent's own, the others are
// in dry run.
type plugin struct {
	*evictdtest.Agent

	nodes      []string
	evictds    []*evictdtest.Evictd
	kubelets   []*streamingKubelet
	script     string
	kubeconfig string
}

func newPlugin(t *testing.T, agents int) *plugin {
	t.Helper()
	c := &plugin{Agent: evictdtest.NewAgent(t), kubeconfig: evictdtest.Cluster().Kubeconfig()}
	var err error
	c.script, err = filepath.Abs("../../deploy/krew/kubectl-evictd")
	c.Must(err)
	c.Launch()
	for i := range agents {
		node, h, d := c.Node, c.Host, c.Evictd
		if i > 0 {
			node, h = c.Node+string(rune('a'+i)), evictdtest.NewHost(t)
			c.AddNode(node)
			d = c.LaunchOn(h, node, "dryRun: true")
		}
		k := &streamingKubelet{
			agent: d.Address,
			paths: map[string]string{"/host": h.Root, "/etc/evictd/evictd.yaml": d.Config, "/evictd": evictdtest.Binary(t)},
		}
		k.start(t)
		c.announce(node, k)
		c.nodes, c.evictds, c.kubelets = append(c.nodes, node), append(c.evictds, d), append(c.kubelets, k)
	}
	c.ship()
	for _, d := range c.evictds {
		c.Until("every evictd is ready", func(ctx context.Context) bool {
			status, _ := d.Get(ctx, "/readyz")
			return status == http.StatusOK
		})
	}
	return c
}

// announce says where the node's kubelet listens, and labels the node for the DaemonSet.
func (c *plugin) announce(name string, k *streamingKubelet) {
	c.T.Helper()
	for _, patch := range []struct{ subresource, change string }{
		{"", fmt.Sprintf(`{"metadata": {"labels": {"plugin": %q}}}`, c.Namespace)},
		{"status", fmt.Sprintf(`{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": %s}}}}`, k.port())},
	} {
		_, err := c.Client.CoreV1().Nodes().Patch(c.T.Context(), name, types.MergePatchType, []byte(patch.change), metav1.PatchOptions{}, patch.subresource)
		c.Must(err)
	}
}

// ship creates the DaemonSet. Its controller makes a pod for each node; the test binds them, as the
// scheduler does, and has them run, as the kubelet does.
func (c *plugin) ship() {
	c.T.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "evictd"}
	sets, pods := c.Client.AppsV1().DaemonSets(c.Namespace), c.Client.CoreV1().Pods(c.Namespace)
	_, err := sets.Create(c.T.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "evictd"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"plugin": c.Namespace},
					Containers: []corev1.Container{{
						Name: "evictd", Image: "none",
						Args: []string{"run", "--config=/etc/evictd/evictd.yaml", "--host-root=/host", "--http-bind-address=:9464", "--log-level", "debug"},
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	c.Must(err)
	c.Undo(func(ctx context.Context) { _ = sets.Delete(ctx, "evictd", metav1.DeleteOptions{}) })
	var made *corev1.PodList
	c.Until("each node has its pod", func(ctx context.Context) bool {
		made, err = pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=evictd"})
		return err == nil && len(made.Items) == len(c.nodes)
	})
	for i := range made.Items {
		pod := &made.Items[i]
		term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		c.Must(pods.Bind(c.T.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: term.MatchFields[0].Values[0]},
		}, metav1.CreateOptions{}))
		_, err := pods.Patch(c.T.Context(), pod.Name, types.MergePatchType, []byte(`{"status": {"phase": "Running", "containerStatuses": [`+
			`{"name": "evictd", "image": "none", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]}}`), metav1.PatchOptions{}, "status")
		c.Must(err)
	}
}

// result is what a command printed, and its exit code.
type result struct {
	stdout, stderr string
	code           int
}

// kubectl runs `kubectl evictd` with the arguments, as kubectl runs a plugin.
func (c *plugin) kubectl(ctx context.Context, args ...string) result {
	c.T.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, c.script, append(args, "--kubeconfig", c.kubeconfig)...)
	command.Stdout, command.Stderr = &out, &errs
	command.Env = append(os.Environ(), "PATH="+os.Getenv("EVICTD_CLUSTER_BIN")+":"+os.Getenv("PATH"))
	err := command.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		c.T.Fatal(err)
	}
	return result{out.String(), errs.String(), command.ProcessState.ExitCode()}
}

// account returns a kubeconfig of an account with these rights in the namespace.
func (c *plugin) account(name string, rules ...rbacv1.PolicyRule) string {
	c.T.Helper()
	ctx, user := c.T.Context(), c.Namespace+"-"+name
	_, err := c.Client.RbacV1().Roles(c.Namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	c.Must(err)
	_, err = c.Client.RbacV1().RoleBindings(c.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	c.Must(err)
	file, err := clientcmd.LoadFromFile(evictdtest.Cluster().Kubeconfig())
	c.Must(err)
	c.Must(clientcmd.ResolveLocalPaths(file)) // it is written elsewhere
	for _, info := range file.AuthInfos {
		info.Impersonate = user
	}
	path := filepath.Join(c.T.TempDir(), "kubeconfig")
	c.Must(clientcmd.WriteToFile(*file, path))
	return path
}
