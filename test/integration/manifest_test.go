package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/cluster"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// account is evictd's, with the namespace and name of the shipped manifest.
const account = "evictd"

const accountUser = "system:serviceaccount:" + account + ":" + account

// The kinds of the shipped manifest, by purpose. Its DaemonSet is left out: there is no
// kubelet here, and the tests create its pods.
func rights() []string {
	return []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
}

func policies() []string {
	return []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
}

// kubectl runs the real kubectl as the administrator and returns what it prints.
func (w *world) kubectl(ctx context.Context, input string, arguments ...string) string {
	w.t.Helper()
	bin := os.Getenv("EVICTD_CLUSTER_BIN")
	if bin == "" {
		var err error
		bin, err = cluster.DefaultBinDir()
		w.must(err)
	}
	ctx, cancel := context.WithTimeout(ctx, cluster.Patiently(time.Minute))
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(bin, "kubectl"), append([]string{"--kubeconfig", shared.Kubeconfig()}, arguments...)...)
	var complaints bytes.Buffer
	command.Stdin, command.Stderr = strings.NewReader(input), &complaints
	output, err := command.Output()
	if err != nil {
		w.t.Fatalf("kubectl %s: %v: %s", strings.Join(arguments, " "), err, complaints.String())
	}
	return string(output)
}

// shippedPart returns the documents of the shipped manifest of these kinds, unchanged.
func shippedPart(tb testing.TB, kinds []string) string {
	tb.Helper()
	text, err := os.ReadFile("../../deploy/daemonset.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var part strings.Builder
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return part.String()
		}
		if err != nil {
			tb.Fatal(err)
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			tb.Fatal(err)
		}
		if slices.Contains(kinds, kind.Kind) {
			part.WriteString("---\n" + string(document))
		}
	}
}

// ship applies the documents of the shipped manifest of these kinds.
func (w *world) ship(kinds []string) {
	w.t.Helper()
	w.kubectl(w.t.Context(), shippedPart(w.t, kinds), "apply", "-f", "-")
}

// unship removes them again, after the test's own context has ended. Other tests of the
// control plane need the API server unchanged.
func (w *world) unship(kinds []string) {
	w.t.Helper()
	w.kubectl(context.Background(), shippedPart(w.t, kinds), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
}

// allow gives evictd's account additional rights, as an overlay would, for the duration of
// the test.
func (w *world) allow(rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	name := "overlay-" + w.namespace
	meta := metav1.ObjectMeta{Name: name}
	_, err := w.client.RbacV1().ClusterRoles().Create(w.t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.RbacV1().ClusterRoleBindings().Create(w.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: account}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() { w.kubectl(context.Background(), "", "delete", "clusterrole,clusterrolebinding", name) })
}

// runningEvictd creates a pod as the DaemonSet would on a node; its token names that node.
func (w *world) runningEvictd(node string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods(account).Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "evictd-"},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: account, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "evictd", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() {
		now := int64(0)
		_ = w.client.CoreV1().Pods(account).Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	return pod
}

// token requests a token of evictd's account as the kubelet does, bound to a pod, or to
// nothing.
func (w *world) token(pod *corev1.Pod) *rest.Config {
	w.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	answer, err := w.client.CoreV1().ServiceAccounts(account).CreateToken(w.t.Context(), account, request, metav1.CreateOptions{})
	w.must(err)
	config := rest.AnonymousClientConfig(unlimited())
	config.QPS, config.BearerToken = -1, answer.Status.Token
	return config
}

// The rights are the minimum, all of them in one list. A change that widens them must change
// the list, which makes it visible.
func TestRightsAreThoseOfTheList(t *testing.T) {
	w := newWorld(t) // not parallel: another test widens the account's rights for a while
	w.ship(rights())
	w.mayDo("testdata/can-i.golden", "pods/eviction")
}

// mayDo compares the rights of evictd's account with a golden file, once the API server has
// read a role with that resource.
func (w *world) mayDo(path, resource string) {
	t := w.t
	t.Helper()
	var want, got string
	text, unread := os.ReadFile(path)
	want = string(text)
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, cluster.Patiently(30*time.Second), true, func(ctx context.Context) (bool, error) {
		got = ""
		// A command that has started may finish: its output is in the failure.
		for line := range strings.Lines(w.kubectl(context.WithoutCancel(ctx), "", "auth", "can-i", "--list", "--as="+accountUser, "--namespace="+w.namespace)) {
			got += strings.TrimRight(line, " \n") + "\n"
		}
		// The API server needs a moment to read the role.
		return strings.Contains(got, resource) && (*update || got == want), nil
	})
	switch {
	case *update && err == nil:
		w.must(os.WriteFile(path, []byte(got), 0o600))
	case err != nil:
		t.Errorf("kubectl auth can-i --list as evictd differs from %s (%v); go test ./integration -run %s -update writes it.\nfile:\n%s\nnow:\n%s",
			path, unread, t.Name(), want, got)
	}
}

// overlays are the directories of deploy/overlays.
func overlays(tb testing.TB) []string {
	tb.Helper()
	entries, err := os.ReadDir("../../deploy/overlays")
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// overlay applies an overlay of the shipped manifest for the duration of the test.
func (w *world) overlay(name string) {
	w.t.Helper()
	path := "../../deploy/overlays/" + name
	w.kubectl(w.t.Context(), "", "apply", "-k", path)
	w.t.Cleanup(func() {
		w.kubectl(context.Background(), "", "delete", "--ignore-not-found", "--wait=false", "-k", path)
	})
}

// The base is the one file of `kubectl apply`, and an overlay only adds to it: applying both
// gives the sum of both.
func TestOverlaysOnlyAddToTheBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text, err := os.ReadFile("../../deploy/daemonset.yaml")
	w.must(err)
	base := identities(t, string(text))
	if built := identities(t, w.kubectl(t.Context(), "", "kustomize", "../../deploy")); !slices.Equal(base, built) {
		t.Errorf("kustomize makes of deploy %v, want what is in daemonset.yaml: %v", built, base)
	}
	for _, name := range overlays(t) {
		added := identities(t, w.kubectl(t.Context(), "", "kustomize", "../../deploy/overlays/"+name))
		if len(added) == 0 {
			t.Errorf("overlay %s adds nothing", name)
		}
		for _, one := range added {
			if slices.Contains(base, one) {
				t.Errorf("overlay %s has %s, which the base has", name, one)
			}
		}
	}
}

// identities returns kind and name of each document, in order.
func identities(tb testing.TB, text string) []string {
	tb.Helper()
	var all []string
	for documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		var object metav1.PartialObjectMetadata
		if err == nil {
			err = yaml.Unmarshal(document, &object)
		}
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, object.Kind+" "+object.Namespace+"/"+object.Name)
	}
}

// The patch that mounts the kubelet's configuration fits the shipped DaemonSet, and names
// the file by its mount path.
func TestKubeletConfigPatchFitsTheShippedDaemonSet(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	patched := w.kubectl(t.Context(), shippedPart(t, []string{"DaemonSet"}), "patch", "--local", "-f", "-", "-o", "yaml",
		"--type=json", "--patch-file=../../deploy/kubelet-config.patch.yaml")
	var set appsv1.DaemonSet
	w.must(yaml.UnmarshalStrict([]byte(patched), &set))
	pod := &set.Spec.Template.Spec
	argument := pod.Containers[0].Args[len(pod.Containers[0].Args)-1]
	mount := pod.Containers[0].VolumeMounts[len(pod.Containers[0].VolumeMounts)-1]
	volume := pod.Volumes[len(pod.Volumes)-1]
	if argument != "--kubelet-config="+strings.TrimPrefix(mount.MountPath, "/host") || !mount.ReadOnly || mount.Name != volume.Name ||
		volume.HostPath == nil || *volume.HostPath.Type != corev1.HostPathFile {
		t.Errorf("argument %s, mount %+v, volume %+v", argument, mount, volume)
	}
}
