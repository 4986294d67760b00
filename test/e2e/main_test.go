//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// live is the node that all tests use, one after the other: pressure affects the whole node.
// Said is the log of evictd on earlier nodes.
var (
	live *node.Node
	said string
)

// The disks of the node's directories: small enough that a test fills them in a second and
// that 70 MiB exceed limits.minimumReclaimShare.
var (
	oneDisk  = cluster.Disk{Size: 512 << 20, Inodes: 16 << 10}
	twoDisks = cluster.Disk{Size: 1280 << 20, Images: 1 << 30}
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := 1
	if err := bringUp(ctx, oneDisk); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	} else {
		code = m.Run()
	}
	err := takeDown(context.WithoutCancel(ctx))
	if code != 0 {
		fmt.Fprintln(os.Stderr, "evictd's log:\n"+said)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: stopping the node:", err)
		return 1
	}
	return code
}

// bringUp starts live, a node with evictd on it. The kubelet measures volumes every 10 to 20
// seconds instead of every minute or two, so that its figures are often older than a
// pressure, as on a real node, and no test waits for minutes. It does not rotate logs.
func bringUp(ctx context.Context, disk cluster.Disk) error {
	files, err := node.FilesFromEnvironment()
	if err != nil {
		return err
	}
	live, err = node.Start(ctx, files, os.Stderr, func(options *cluster.Options) {
		options.Disk = &disk
		options.Kubelet["volumeStatsAggPeriod"] = "10s"
		options.Kubelet["containerLogMaxSize"] = "1Gi"
		// Where a test gives the kubelet thresholds of a disk, it removes unused images at
		// once: it counts their age from its own start.
		options.Kubelet["imageMinimumGCAge"] = "1ms"
	})
	if err != nil {
		return err
	}
	return live.Deploy(ctx)
}

func takeDown(ctx context.Context) error {
	if live == nil {
		return nil
	}
	log, _ := live.Log(ctx)
	said += log
	return live.Stop(ctx)
}

// on replaces the node with one that has these disks: only one can run on a machine. That
// takes time, so tests of the same disks should be adjacent.
func on(t *testing.T, disk cluster.Disk) {
	t.Helper()
	if live != nil && live.Disk == disk {
		return
	}
	if err := takeDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := bringUp(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
}

// headroom is how many MiB the pods may use together without pressure. Evictd and the pause
// containers use about fifty of them.
const headroom = 700

// nodeHeadroom is the same for the whole node, which the rest of the machine affects too:
// the pods' sizes leave much more margin on both sides.
const nodeHeadroom = 2100

// scene is one test: a namespace and a near threshold.
type scene struct {
	*testing.T
	namespace string
	imported  int // images
}

// newScene applies a threshold on the pods' memory and creates a namespace. There is no
// pressure yet.
func newScene(t *testing.T, dryRun bool, extra string) *scene {
	t.Helper()
	return newSceneOf(t, node.PodMemory, headroom, dryRun, extra)
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
	s := &scene{T: t}
	ns, err := live.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
	}, metav1.CreateOptions{})
	s.must(err)
	s.namespace = ns.Name
	t.Cleanup(s.clear)
	return s
}

// threshold applies one that is met when that much more is used.
func (s *scene) threshold(pressed string, below int64, dryRun bool, extra string) {
	s.Helper()
	line, err := live.LineBelow(s.Context(), pressed, below)
	s.must(err)
	s.must(live.Configure(s.Context(), node.Policy{Signal: pressed, Line: line, DryRun: dryRun, Extra: extra}))
}

// clear removes the namespace and waits until its pods are gone, and their memory is
// reclaimed.
func (s *scene) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Patiently(90*time.Second))
	defer cancel()
	if err := live.Client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
		s.Errorf("removing the namespace: %v", err)
	}
	err := node.Until(ctx, 80*time.Second, func(ctx context.Context) bool {
		list, err := live.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	if err != nil {
		s.Errorf("waiting for the pods to go: %v", err)
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

// until waits for the condition under test.
func (s *scene) until(what string, met func(context.Context) bool) {
	s.Helper()
	s.within(time.Minute, what, met)
}

func (s *scene) within(atMost time.Duration, what string, met func(context.Context) bool) {
	s.Helper()
	if err := node.Until(s.Context(), atMost, met); err != nil {
		decisions, _, _ := live.Get(context.WithoutCancel(s.Context()), "/debug/decisions")
		s.Fatalf("timed out waiting until %s; the last decisions:\n%.6000s", what, decisions)
	}
}

// gone waits until a pod has ended, and returns the decision that evicted it.
func (s *scene) gone(pod *corev1.Pod) node.Decision {
	s.Helper()
	s.within(2*time.Minute, pod.Name+" has gone", func(ctx context.Context) bool {
		current, err := live.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || (err == nil && current.UID != pod.UID)
	})
	decision, there := s.decisionAbout(s.Context(), pod)
	if !there {
		s.Fatalf("%s has gone and no decision names it", pod.Name)
	}
	return decision
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
			s.Errorf("%s was restarted or ended: %+v", pod.Name, c)
		}
	}
}

// decisionAbout returns the newest decision with a request for the pod.
func (s *scene) decisionAbout(ctx context.Context, pod *corev1.Pod) (node.Decision, bool) {
	s.Helper()
	decisions, err := live.Decisions(ctx)
	s.must(err)
	for _, d := range decisions {
		for _, a := range d.Attempts {
			if a.UID == string(pod.UID) {
				return d, true
			}
		}
	}
	return node.Decision{}, false
}

// quiet ends a Deployment, so that its next pod causes no pressure.
func (s *scene) quiet(name string) {
	s.Helper()
	s.must(live.Client.AppsV1().Deployments(s.namespace).Delete(s.Context(), name, metav1.DeleteOptions{}))
}
