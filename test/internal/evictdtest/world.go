package evictdtest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/evictd/evictd/test/internal/eventually"
)

// World is one test's part of the cluster: a namespace and a node, which exists only as an object.
type World struct {
	T         testing.TB
	Client    kubernetes.Interface // the administrator's
	Namespace string
	Node      string
}

// NewWorld creates the namespace and the node, until the end of the test.
func NewWorld(tb testing.TB) *World {
	tb.Helper()
	w := &World{T: tb, Client: shared.Client()}
	ns, err := w.Client.CoreV1().Namespaces().Create(tb.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "it-"},
	}, metav1.CreateOptions{})
	w.Must(err)
	w.Namespace, w.Node = ns.Name, "node-"+ns.Name
	w.AddNode(w.Node)
	w.Undo(func(ctx context.Context) {
		_ = w.Client.CoreV1().Pods(w.Namespace).DeleteCollection(ctx, AtOnce(), metav1.ListOptions{})
	})
	w.Until("the default service account is there", func(ctx context.Context) bool {
		_, err := w.Client.CoreV1().ServiceAccounts(w.Namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return w
}

// AtOnce are the options of a delete without a grace period.
func AtOnce() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64)} }

// Must fails the test on an error.
func (w *World) Must(err error) {
	w.T.Helper()
	must(w.T, err)
}

// Until waits for a condition and fails the test when it is not met.
func (w *World) Until(what string, met func(context.Context) bool, states ...func() string) {
	w.T.Helper()
	eventually.Until(w.T, what, met, states...)
}

// Undo is called after the test, whose own context has ended by then.
func (w *World) Undo(undo func(context.Context)) {
	w.T.Helper()
	eventually.Undo(w.T, undo)
}

// AddNode creates a Node, until the end of the test.
func (w *World) AddNode(name string) {
	w.T.Helper()
	nodes := w.Client.CoreV1().Nodes()
	_, err := nodes.Create(w.T.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.Must(err)
	w.Undo(func(ctx context.Context) { _ = nodes.Delete(ctx, name, metav1.DeleteOptions{}) })
}

// Pod creates a pod on the test's node with that request in MiB, running and ready. It has no
// controller: the garbage collector would remove a pod whose owner does not exist.
func (w *World) Pod(name string, request int64, change ...func(*corev1.Pod)) *corev1.Pod {
	w.T.Helper()
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: w.Node,
			Containers: []corev1.Container{{
				Name: "c", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceMemory: *resource.NewQuantity(request<<20, resource.BinarySI),
				}},
			}},
		},
	}
	for _, c := range change {
		c(made)
	}
	pod, err := w.Client.CoreV1().Pods(w.Namespace).Create(w.T.Context(), made, metav1.CreateOptions{})
	w.Must(err)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod, err = w.Client.CoreV1().Pods(w.Namespace).UpdateStatus(w.T.Context(), pod, metav1.UpdateOptions{})
	w.Must(err)
	return pod
}

// Budget creates a PodDisruptionBudget for the only pod of a label that allows no disruption, and
// waits until the disruption controller reports that.
func (w *World) Budget(name, app string) {
	w.T.Helper()
	w.Kubectl(w.T.Context(), "", "-n", w.Namespace, "create", "poddisruptionbudget", name, "--selector=app="+app, "--min-available=1")
	w.Until("the disruption controller has counted "+name, func(ctx context.Context) bool {
		b, err := w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == 1 && b.Status.DisruptionsAllowed == 0
	})
}

// Terminating reports whether the pod is terminating.
func (w *World) Terminating(name string) bool {
	w.T.Helper()
	pod, err := w.Client.CoreV1().Pods(w.Namespace).Get(w.T.Context(), name, metav1.GetOptions{})
	w.Must(err)
	return pod.DeletionTimestamp != nil
}

// Kubectl runs the real kubectl as the administrator and returns what it prints.
func (w *World) Kubectl(ctx context.Context, input string, arguments ...string) string {
	w.T.Helper()
	output, err := shared.Kubectl(ctx, input, arguments...)
	w.Must(err)
	return output
}

// Ship applies the documents of the shipped manifest of these kinds.
func (w *World) Ship(kinds []string) {
	w.T.Helper()
	w.Kubectl(w.T.Context(), ShippedPart(w.T, kinds), "apply", "-f", "-")
}

// Unship removes them again after the test: others need the API server unchanged.
func (w *World) Unship(kinds []string) {
	w.T.Helper()
	w.Undo(func(ctx context.Context) {
		w.Kubectl(ctx, ShippedPart(w.T, kinds), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	})
}
