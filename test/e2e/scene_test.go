//go:build e2e || e2e_all

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// headroom is how many MiB the pods may use together without pressure. Evictd and the pause
// containers use about fifty of them.
const headroom = 700

// scene is one test: a namespace, and what the test does with the node and evictd.
type scene struct {
	*testing.T
	namespace string
	workers   []*worker
	log       audit.Log     // of the API server, since the scene began
	requested []audit.Event // what was read of it
}

// newScene applies a threshold on the pods' memory and creates a namespace. There is no
// pressure yet.
func newScene(t *testing.T, dryRun bool) *scene {
	t.Helper()
	return newSceneOf(t, node.PodMemory, headroom, dryRun, "")
}

func newSceneOf(t *testing.T, pressed string, below int64, dryRun bool, extra string) *scene {
	t.Helper()
	on(t, oneDisk)
	s := emptyScene(t)
	s.threshold(pressed, below, dryRun, extra)
	return s
}

// emptyScene creates a namespace on the running node.
func emptyScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, log: audit.Log{Path: live.Cluster.AuditLog()}}
	s.must(s.log.Skip())
	ns, err := live.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
	}, metav1.CreateOptions{})
	s.must(err)
	s.namespace = ns.Name
	_ = t.TempDir() // the barriers are in such folders: they are removed after the pods
	eventually.Undo(t, s.clear)
	return s
}

// bareToo permits the eviction of pods without a controller: they are not created again, so
// their files are written only once.
const bareToo = "protect: {barePods: false}"

// newDiskScene applies a threshold on the node's own filesystem. At the end it waits until
// the space is reclaimed: the kubelet removes dead containers once a minute.
func newDiskScene(t *testing.T, signal string, untilMet int64) *scene {
	t.Helper()
	on(t, oneDisk)
	spaceIsBackAtTheEnd(t, signal)
	return newSceneOf(t, signal, untilMet, false, bareToo)
}

// spaceIsBackAtTheEnd lets the end of the test wait until the filesystem has what it has now. It
// distinguishes what the node itself writes from what a test's pods wrote.
func spaceIsBackAtTheEnd(t *testing.T, signal string) {
	t.Helper()
	before, err := live.DiskAvailable(signal)
	if err != nil {
		t.Fatal(err)
	}
	little := int64(8 << 20)
	if signal == node.DiskInodes {
		little = 100
	}
	eventually.Undo(t, func(ctx context.Context) {
		err := eventually.Poll(ctx, func(context.Context) bool {
			available, unread := live.DiskAvailable(signal)
			return unread == nil && available >= before-little
		})
		if err != nil {
			t.Errorf("waiting for the space to come back: %v", err)
		}
	})
}

// clear removes the namespace and waits until its pods are gone, and their memory is
// reclaimed.
func (s *scene) clear(ctx context.Context) {
	for _, w := range s.workers {
		w.release()
	}
	if _, err := live.Kubectl(ctx, "delete", "namespace", s.namespace, "--wait=false"); err != nil {
		s.Errorf("removing the namespace: %v", err)
	}
	// Kubernetes would wait for 5 s before it deletes them. There are no replacements any more.
	if _, err := live.Kubectl(ctx, "-n", s.namespace, "delete", "pods", "--all", "--timeout="+eventually.Limit().String()); err != nil {
		s.Errorf("removing the pods: %v", err)
	}
}

// configure gives evictd a configuration with which it decides ten times a second, so that ten
// decisions more are a second on a fast machine.
func (s *scene) configure(p node.Policy) {
	s.Helper()
	p.Extra = strings.TrimSuffix(p.Extra, "\n") + "\nsampling: {maxInterval: 100ms}\n"
	s.must(live.Configure(s.Context(), p))
}

// threshold applies one that is met when that much more is used.
func (s *scene) threshold(pressed string, below int64, dryRun bool, extra string) {
	s.Helper()
	line, err := live.LineBelow(s.Context(), pressed, below)
	s.must(err)
	s.configure(node.Policy{Signal: pressed, Line: line, DryRun: dryRun, Extra: extra})
}

// patientThreshold applies a soft one on the pods' memory, under which evictd relies on a victim to the
// end of its grace period: no machine is too slow for a test whose victim ends at a barrier.
func (s *scene) patientThreshold() {
	s.Helper()
	line, err := live.LineBelow(s.Context(), node.PodMemory, headroom)
	s.must(err)
	s.configure(node.Policy{Signal: node.PodMemory, Line: line, Soft: true})
}

// farFromAnyLine lets the next test create its pods without pressure.
func (s *scene) farFromAnyLine(ctx context.Context) {
	s.Helper()
	s.must(live.Configure(ctx, node.Policy{Signal: node.NodeMemory, Line: 64 << 20}))
}

// until waits for the condition under test.
func (s *scene) until(what string, met func(context.Context) bool) {
	s.Helper()
	eventually.Until(s.T, what, met, lastDecisions)
}

// ticks waits until evictd has decided many times more: what it has not done by then, it does not do.
func (s *scene) ticks() {
	s.Helper()
	const count = 20
	eventually.Ticks(s.T, live, count, lastDecisions)
}

// lastDecisions returns what evictd has decided.
func lastDecisions() string {
	ctx, cancel := eventually.Cleanup()
	defer cancel()
	decisions, err := live.LastDecisions(ctx)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("the last decisions:\n%.6000s", decisions)
}

// gone waits until a pod has ended, and returns the decision that evicted it.
func (s *scene) gone(pod *corev1.Pod) (decision node.Decision) {
	s.Helper()
	s.ends(pod)
	s.until("a decision names "+pod.Name, func(ctx context.Context) (named bool) {
		decision, named = s.decisionAbout(ctx, pod)
		return named
	})
	return decision
}

// ends waits until a pod has ended.
func (s *scene) ends(pod *corev1.Pod) {
	s.Helper()
	s.until(pod.Name+" has ended", func(ctx context.Context) bool {
		current, err := live.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || (err == nil && current.UID != pod.UID)
	})
}

// terminates waits until a pod's end was requested.
func (s *scene) terminates(pod *corev1.Pod) {
	s.Helper()
	s.until(pod.Name+" is terminating", func(ctx context.Context) bool { return terminating(ctx, pod) })
}

// terminating reports whether a pod is there and terminating.
func terminating(ctx context.Context, pod *corev1.Pod) bool {
	now, err := live.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && now.UID == pod.UID && now.DeletionTimestamp != nil
}

// decisionAbout returns the newest decision with a request for the pod; false also while evictd does
// not answer.
func (s *scene) decisionAbout(ctx context.Context, pod *corev1.Pod) (node.Decision, bool) {
	s.Helper()
	decisions, err := live.Decisions(ctx)
	if err != nil {
		s.Log(err)
	}
	for _, d := range decisions {
		for _, a := range d.Attempts {
			if a.UID == string(pod.UID) {
				return d, true
			}
		}
	}
	return node.Decision{}, false
}

// logLines returns the lines of evictd's log, each with the fields of T.
func logLines[T any](ctx context.Context) (lines []T, err error) {
	log, err := live.Log(ctx)
	if err != nil {
		return nil, err
	}
	for text := range strings.Lines(log) {
		var line T
		if json.Unmarshal([]byte(text), &line) == nil {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// emptyDirs is where the kubelet has a pod's volumes of that kind, as the node sees it.
func emptyDirs(pod *corev1.Pod) string {
	return filepath.Join("/var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~empty-dir")
}

// requests returns evictd's requests to evict pods of the scene that are no dry run, with their answers,
// by the API server's audit log: it outlives evictd.
func (s *scene) requests() []audit.Event {
	s.Helper()
	events, err := s.log.Next()
	s.must(err)
	s.requested = append(s.requested, slices.DeleteFunc(events, func(e audit.Event) bool {
		return !e.Evicts() || e.User.Username != node.Account || e.ObjectRef.Namespace != s.namespace ||
			bytes.Contains(e.Request, []byte(`"dryRun"`))
	})...)
	return s.requested
}

// victims returns the names of the scene's pods that evictd has evicted.
func (s *scene) victims() []string {
	s.Helper()
	var names []string
	for _, e := range s.requests() {
		if e.Response.Code == http.StatusCreated {
			names = append(names, e.ObjectRef.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// wantVictims fails the test unless evictd has evicted these pods of the scene and no others, by the
// time that it has decided many times more.
func (s *scene) wantVictims(pods ...*corev1.Pod) {
	s.Helper()
	s.ticks()
	var want []string
	for _, p := range pods {
		want = append(want, p.Name)
	}
	slices.Sort(want)
	if got := s.victims(); !slices.Equal(got, want) {
		s.Errorf("evictd has evicted %q, want %q\n%s", got, want, lastDecisions())
	}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// deploy makes a Deployment and waits until its pod runs.
func (s *scene) deploy(w node.Workload) corev1.Pod {
	s.Helper()
	s.must(w.Deploy(s.Context(), live, s.namespace))
	pod, err := live.Running(s.Context(), s.namespace, w.Name)
	s.must(err)
	return pod
}

// stays fails the test unless the pod exists, unchanged.
func (s *scene) stays(pod *corev1.Pod) {
	s.Helper()
	current, err := live.Client.CoreV1().Pods(pod.Namespace).Get(s.Context(), pod.Name, metav1.GetOptions{})
	s.must(err)
	if current.UID != pod.UID || current.DeletionTimestamp != nil {
		s.Errorf("%s did not stay: UID %s, deleted %v", pod.Name, current.UID, current.DeletionTimestamp)
	}
	for _, c := range current.Status.ContainerStatuses {
		if c.RestartCount > 0 || c.State.Running == nil {
			s.Errorf("%s was restarted or ended: %+v; %s: %s", pod.Name, c.State, current.Status.Reason, current.Status.Message)
		}
	}
}

// count returns the sum of a metric's series that have the labels, and NaN where evictd does
// not respond.
func (s *scene) count(ctx context.Context, name string, labels ...string) float64 {
	s.Helper()
	families, err := live.Metrics(ctx)
	if err != nil {
		s.Log(err)
		return math.NaN()
	}
	sum, _ := families.Sum(name, labels...)
	return sum
}

// held returns how often evictd has held for a signal with that reason.
func (s *scene) held(ctx context.Context, signal, hold string) float64 {
	s.Helper()
	return s.count(ctx, "evictd_holds_total", "signal", signal, "hold", hold)
}

func (s *scene) calm(signal string) {
	s.Helper()
	s.until("the pressure has ended", func(ctx context.Context) bool {
		return s.count(ctx, "evictd_pressure", "signal", signal) == 0
	})
}

// kubeletEvicts gives the kubelet hard thresholds until the end of the test, also in the file that evictd
// reads with its own next configuration.
func (s *scene) kubeletEvicts(thresholds map[string]string) {
	s.Helper()
	live.ForgetPolicy()
	kubelet := func(ctx context.Context, hard map[string]string) {
		s.must(live.Cluster.SetKubelet(ctx, map[string]any{"evictionHard": hard}))
	}
	eventually.Undo(s, func(ctx context.Context) {
		_ = os.Remove(live.Cluster.InNode(node.KubeletFile))
		kubelet(ctx, map[string]string{node.NodeMemory: "1Mi"})
	})
	s.must(live.TellEvictd(thresholds))
	kubelet(s.Context(), thresholds)
}

// kubeletHasNotActed fails the test where the kubelet has evicted a pod of the scene.
func (s *scene) kubeletHasNotActed() {
	s.Helper()
	for _, name := range s.evictedByTheKubelet(s.Context()) {
		s.Errorf("the kubelet has evicted %s", name)
	}
}

// evictedByTheKubelet returns the names of the scene's pods that the kubelet reports as
// evicted.
func (s *scene) evictedByTheKubelet(ctx context.Context) []string {
	s.Helper()
	list, err := live.Client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	var names []string
	for i := range list.Items {
		// The kubelet's own reason in its Event: pkg/kubelet/eviction/eviction_manager.go. A kubelet that
		// starts under pressure gives the same one to a running pod that it does not admit.
		if e := &list.Items[i]; e.Reason == "Evicted" && e.Source.Component == "kubelet" && e.Type == corev1.EventTypeWarning &&
			!strings.HasPrefix(e.Message, "The node had condition") {
			names = append(names, e.InvolvedObject.Name)
		}
	}
	return names
}

// inCgroup returns a figure of the memory.stat of a pod's cgroup with its containers, in bytes.
func (s *scene) inCgroup(pod *corev1.Pod, name string) int64 {
	s.Helper()
	below := filepath.Join("*", "kubepods", "*", "pod"+string(pod.UID), "memory.stat")
	v1, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/memory", below))
	s.must(err)
	v2, err := filepath.Glob(filepath.Join("/sys/fs/cgroup", below))
	s.must(err)
	if len(v1) > 0 {
		name = "total_" + name
	}
	files := append(v1, v2...)
	if len(files) == 0 {
		return 0
	}
	text, err := os.ReadFile(files[0])
	s.must(err)
	return measure.SumOf(string(text), name)
}

// elsewhere creates a pod on a node that exists only as an object, without the label that
// evictd's DaemonSet selects.
func (s *scene) elsewhere() *corev1.Pod {
	s.Helper()
	const name = "elsewhere"
	_, err := live.Client.CoreV1().Nodes().Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	s.must(err)
	pod, err := live.Client.CoreV1().Pods(s.namespace).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs"},
		Spec: corev1.PodSpec{
			NodeName: name, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	eventually.Undo(s, func(ctx context.Context) {
		_, err := live.Kubectl(ctx, "-n", s.namespace, "delete", "pod", pod.Name, "--force", "--wait=false")
		s.must(err)
		_, err = live.Kubectl(ctx, "delete", "node", name)
		s.must(err)
	})
	return pod
}

// diskUse has the running evictd, in its pod, measure what the scene's pods use of the signal's
// filesystem.
func (s *scene) diskUse(ctx context.Context, signal string) map[string]int64 {
	s.Helper()
	out, err := live.Kubectl(ctx, "-n", node.Namespace, "exec", "ds/evictd", "--", "/evictd", "rank", "--signal="+signal, "-o=json")
	if err != nil {
		s.Logf("evictd rank: %v", err)
		return nil
	}
	var report status.Ranking
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		s.Logf("evictd rank prints %q: %v", out, err)
		return nil
	}
	used := map[string]int64{}
	for _, e := range append(report.Candidates, report.Protected...) {
		if e.Namespace == s.namespace && e.Usage != nil {
			used[e.Name] = *e.Usage
		}
	}
	return used
}

// readOnlyBelow checks that a hostPath of evictd's container, and everything mounted below
// it except for some files, is read-only: there, root could write other pods' limits.
func (s *scene) readOnlyBelow(dir string, but ...string) {
	s.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	s.must(err)
	mounts := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		for line := range strings.Lines(string(text)) {
			// mountinfo: ID, parent, device, root, mount point, options: proc_pid_mountinfo(5)
			fields := strings.Fields(line)
			if len(fields) < 6 || slices.Contains(but, fields[4]) || fields[4] != dir && !strings.HasPrefix(fields[4], dir+"/") {
				continue
			}
			mounts++
			if !slices.Contains(strings.Split(fields[5], ","), "ro") {
				s.Errorf("%s of evictd's container can be written to: %s", fields[4], fields[5])
			}
		}
	}
	if mounts == 0 {
		s.Errorf("no process has %s mounted", dir)
	}
}

// component returns the patch of a component of deploy.
func (s *scene) component(name string) string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(live.Files.Manifest), "components", name, "daemonset.patch.yaml"))
	s.must(err)
	return string(text)
}

// withPatch changes evictd's DaemonSet for one test.
func (s *scene) withPatch(patch string) {
	s.Helper()
	s.must(live.Change(s.Context(), "patch", "ds/evictd", "--patch", patch))
	eventually.Undo(s, func(ctx context.Context) { s.must(live.Change(ctx, "rollout", "undo", "ds/evictd")) })
}
