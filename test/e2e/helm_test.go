//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/node"
)

// helmed is the chart's release on the node, in place of the shipped manifest.
type helmed struct {
	*scene

	program, chart string
	in             string // the release's namespace
}

// A release on a real node from its installation to its end, by the real helm, in a namespace that is
// not the manifest's: each step is a command of docs/install.md.
func TestHelmOnARealNode(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	s.elsewhere() // a pod that the policies refuse
	h := newHelm(s, "helm-moved")
	before := h.clusterScoped(t.Context())
	for _, step := range []struct {
		name string
		run  func(*helmed)
	}{
		{"install", (*helmed).installs},
		{"a moved namespace is still confined", (*helmed).isConfined},
		{"an upgrade with another configuration restarts no pod", (*helmed).upgradesConfiguration},
		{"an upgrade with arguments rolls out", (*helmed).upgradesArguments},
		{"an edit outlives an upgrade", (*helmed).keepsAnEdit},
		{"rollback", (*helmed).rollsBack},
		{"helm test runs the doctor", (*helmed).passesItsTest},
		{"a configuration with three faults", (*helmed).namesThreeFaults},
		{"uninstall leaves nothing", func(h *helmed) { h.uninstalls(before) }},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			of := *h
			of.scene = &scene{T: t, namespace: s.namespace}
			step.run(&of)
		}) {
			t.FailNow() // each step goes on where the one before ended
		}
	}
}

// newHelm replaces the shipped manifest, until the end of the test, by a namespace for a release that is
// not there yet.
func newHelm(s *scene, in string) *helmed {
	s.Helper()
	manifest := live.Files.Manifest
	h := &helmed{scene: s, program: filepath.Join(live.Files.ClusterBin, "helm"), chart: filepath.Join(filepath.Dir(manifest), "chart", "evictd"), in: in}
	_, err := live.Kubectl(s.Context(), "delete", "--wait", "-f", manifest)
	s.must(err)
	eventually.Undo(s, func(ctx context.Context) {
		if s.Failed() {
			log, _ := live.Kubectl(ctx, "-n", in, "logs", "ds/evictd")
			s.Logf("evictd's log:\n%s", log)
			_ = exec.CommandContext(ctx, h.program, h.arguments("uninstall", "evictd", "--wait")...).Run()
		}
		_, _ = live.Kubectl(ctx, "delete", "--wait", "--ignore-not-found", "namespace", in)
		s.must(live.Deploy(ctx))
	})
	return h
}

func (h *helmed) arguments(command ...string) []string {
	return append(command, "--namespace", h.in, "--kubeconfig", live.Cluster.Kubeconfig())
}

// try runs helm and returns what it prints.
func (h *helmed) try(command ...string) (string, error) {
	h.Helper()
	text, err := exec.CommandContext(h.Context(), h.program, h.arguments(command...)...).CombinedOutput()
	return string(text), err
}

// does runs helm, which must succeed.
func (h *helmed) does(command ...string) string {
	h.Helper()
	text, err := h.try(command...)
	if err != nil {
		h.Fatalf("helm %s: %v: %s", strings.Join(command, " "), err, text)
	}
	return text
}

// upgrade keeps the values of the release.
func (h *helmed) upgrade(more ...string) {
	h.Helper()
	h.does(append([]string{"upgrade", "evictd", h.chart, "--reset-then-reuse-values", "--wait"}, more...)...)
}

// pod returns evictd's pod.
func (h *helmed) pod() corev1.Pod {
	h.Helper()
	pods, err := live.Client.CoreV1().Pods(h.in).List(h.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=evictd"})
	h.must(err)
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(pods.Items) != 1 {
		h.Fatalf("%d pods of evictd", len(pods.Items))
	}
	return pods.Items[0]
}

// shows waits until a metric of evictd has that value.
func (h *helmed) shows(name string, want float64, labels ...string) {
	h.Helper()
	var got float64
	var there bool
	eventually.Until(h.T, fmt.Sprintf("%s%v is %v", name, labels, want), func(ctx context.Context) bool {
		families, unread := live.Metrics(ctx)
		if unread != nil {
			return false
		}
		got, there = families.Sum(name, labels...)
		return there && got == want
	}, func() string { return fmt.Sprintf("it is %v (there: %v)", got, there) })
}

// hasLine waits until evictd's hard threshold of nodefs.available is a share of the disk.
func (h *helmed) hasLine(share float64) {
	h.Helper()
	var line, capacity float64
	eventually.Until(h.T, fmt.Sprintf("the threshold is a share of %v", share), func(ctx context.Context) bool {
		families, unread := live.Metrics(ctx)
		if unread != nil {
			return false
		}
		line, _ = families.Sum("evictd_threshold_line_bytes", "signal", node.DiskSpace, "kind", "Hard")
		capacity, _ = families.Sum("evictd_signal_capacity_bytes", "signal", node.DiskSpace)
		return capacity > 0 && line/capacity > share-0.001 && line/capacity < share+0.001
	}, func() string { return fmt.Sprintf("the threshold is %v of %v", line, capacity) })
}

func (h *helmed) installs() {
	notes := h.does("install", "evictd", h.chart, "--create-namespace", "--wait")
	if !strings.Contains(notes, "is in DRY RUN") {
		h.Errorf("the notes:\n%s", notes)
	}
	set, err := live.Client.AppsV1().DaemonSets(h.in).Get(h.Context(), "evictd", metav1.GetOptions{})
	h.must(err)
	if set.Status.NumberReady != 1 || set.Status.DesiredNumberScheduled != 1 {
		h.Errorf("helm has not waited for the DaemonSet: %+v", set.Status)
	}
	h.shows("evictd_dry_run", 1)
	h.hasLine(0.12)
}

func (h *helmed) isConfined() { h.shows("evictd_confined", 1) }

func (h *helmed) upgradesConfiguration() {
	first := h.pod()
	h.upgrade("--set-json", `config={"evictionHard":{"nodefs.available":"9%"}}`)
	h.hasLine(0.09)
	now := h.pod()
	if now.UID != first.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		h.Errorf("the pod was restarted: %s, then %s with %+v", first.Name, now.Name, now.Status.ContainerStatuses)
	}
}

func (h *helmed) upgradesArguments() {
	first := h.pod()
	h.upgrade("--set", "extraArgs={--log-level=debug}")
	now := h.pod()
	if now.UID == first.UID || !slices.Contains(now.Spec.Containers[0].Args, "--log-level=debug") {
		h.Errorf("the pod was not replaced: %s, then %s with %q", first.Name, now.Name, now.Spec.Containers[0].Args)
	}
	h.hasLine(0.09) // the upgrade before stays
}

// keepsAnEdit changes the configuration as `kubectl edit` does, as one who stops evictd by it. An upgrade with
// other values is refused and does not take the edit back.
func (h *helmed) keepsAnEdit() {
	files := live.Client.CoreV1().ConfigMaps(h.in)
	file, err := files.Get(h.Context(), "evictd", metav1.GetOptions{})
	h.must(err)
	file.Data["evictd.yaml"] = strings.ReplaceAll(file.Data["evictd.yaml"], "9%", "8%")
	_, err = files.Update(h.Context(), file, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
	h.must(err)
	h.hasLine(0.08)
	output, err := h.try("upgrade", "evictd", h.chart, "--reset-then-reuse-values", "--set-json", "extraArgs=[]")
	if err == nil || !strings.Contains(output, `conflict with "kubectl-edit"`) {
		h.Errorf("an upgrade after the edit: %v: %s", err, output)
	}
	h.hasLine(0.08)
}

func (h *helmed) rollsBack() {
	h.does("rollback", "evictd", "1", "--wait", "--force-conflicts") // because of the edit
	if now := h.pod(); slices.Contains(now.Spec.Containers[0].Args, "--log-level=debug") {
		h.Errorf("the pod's arguments: %q", now.Spec.Containers[0].Args)
	}
	h.hasLine(0.12)
}

func (h *helmed) passesItsTest() {
	output := h.does("test", "evictd", "--logs")
	h.Logf("helm test:\n%s", output)
	for _, want := range []string{
		": valid\n", "CHECK ", "right/create pods/eviction ", "token ", fmt.Sprintf("system:serviceaccount:%s:evictd on node %s", h.in, live.Name()),
	} {
		if !strings.Contains(output, want) {
			h.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(output, " missing ") || strings.Contains(output, " unknown ") {
		h.Error("a line is not in order")
	}
}

func (h *helmed) namesThreeFaults() {
	h.upgrade("--set-json", `config={"dryRum":false,"evictionHard":{"memory.available":"5%%"},"limits":{"evictionsPerMinute":-1}}`)
	h.shows("evictd_config_last_reload_successful", 0)
	output, err := h.try("test", "evictd", "--logs")
	if err == nil {
		h.Error("helm test passed")
	}
	h.Logf("helm test:\n%s", output)
	for _, path := range []string{"dryRum: Forbidden", "evictionHard[memory.available]: Invalid value", "limits.evictionsPerMinute: Invalid value"} {
		if !strings.Contains(output, path) {
			h.Errorf("%q is missing in the output of helm test", path)
		}
	}
	h.hasLine(0.12) // the old one stays in force
}

func (h *helmed) uninstalls(before []string) {
	h.does("uninstall", "evictd", "--wait")
	h.until("nothing of the release is left", func(ctx context.Context) bool { return len(h.left(ctx, before)) == 0 })
}

// clusterScoped lists the objects outside of namespaces of the kinds that the chart has, and of which
// only an administrator makes any.
func (h *helmed) clusterScoped(ctx context.Context) []string {
	h.Helper()
	text, err := live.Kubectl(ctx, "get", "-o=name",
		"clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,flowschemas,prioritylevelconfigurations,priorityclasses,runtimeclasses")
	h.must(err)
	return strings.Fields(text)
}

// left lists what is there of the release: everything in its namespace that Kubernetes has not made itself,
// and what was not there before outside of namespaces.
func (h *helmed) left(ctx context.Context, before []string) []string {
	h.Helper()
	kinds, err := live.Kubectl(ctx, "api-resources", "--verbs=list", "-o=name", "--namespaced=true")
	h.must(err)
	objects, err := live.Kubectl(ctx, "get", strings.Join(strings.Fields(kinds), ","), "-n", h.in, "-o=name")
	h.must(err)
	left := slices.DeleteFunc(append(strings.Split(objects, "\n"), h.clusterScoped(ctx)...), func(object string) bool {
		return object == "" || slices.Contains(before, object) || object == "configmap/kube-root-ca.crt" || object == "serviceaccount/default" ||
			strings.HasPrefix(object, "event/") || strings.HasPrefix(object, "event.events.k8s.io/") ||
			strings.HasPrefix(object, "Warning: ") // of kinds that are deprecated
	})
	if len(left) > 0 {
		h.Logf("left: %q", left)
	}
	return left
}
