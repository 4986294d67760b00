package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/cluster"
)

// world is one test's part of the cluster: a namespace and a node.
type world struct {
	t         testing.TB
	client    kubernetes.Interface
	namespace string
	node      string
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{t: tb, client: admin(tb)}
	ns, err := w.client.CoreV1().Namespaces().Create(tb.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "it-"},
	}, metav1.CreateOptions{})
	w.must(err)
	w.namespace, w.node = ns.Name, "node-"+ns.Name
	_, err = w.client.CoreV1().Nodes().Create(tb.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: w.node},
	}, metav1.CreateOptions{})
	w.must(err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Patiently(10*time.Second))
		defer cancel()
		now := int64(0)
		_ = w.client.CoreV1().Pods(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
		_ = w.client.CoreV1().Nodes().Delete(ctx, w.node, metav1.DeleteOptions{})
	})
	w.until("the default service account is there", func(ctx context.Context) bool {
		_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// until polls a condition and fails the test when it does not become true.
func (w *world) until(what string, met func(context.Context) bool) {
	w.t.Helper()
	atMost := cluster.Patiently(2 * time.Minute) // evictd says within 40 s whether it is confined
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, atMost, true,
		func(ctx context.Context) (bool, error) { return met(ctx), nil })
	if err != nil {
		w.t.Fatalf("waited %v until %s: %v", atMost, what, err)
	}
}

// pod creates a pod on the test's node with that request in MiB, running and ready. It has
// no controller: the garbage collector would remove a pod whose owner does not exist.
func (w *world) pod(name string, request int64, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{
			NodeName: w.node,
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
	pod, err := w.client.CoreV1().Pods(w.namespace).Create(w.t.Context(), made, metav1.CreateOptions{})
	w.must(err)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod, err = w.client.CoreV1().Pods(w.namespace).UpdateStatus(w.t.Context(), pod, metav1.UpdateOptions{})
	w.must(err)
	return pod
}

// budget creates a PodDisruptionBudget for the only pod of a label that allows no
// disruption, and waits until the disruption controller reports that.
func (w *world) budget(name, app string) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	return w.budgetOf(name, app, 1)
}

// budgetOf is budget for that many pods, all of which must stay.
func (w *world) budgetOf(name, app string, pods int32) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	minimum := intstr.FromInt32(pods)
	b, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Create(w.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &minimum,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	w.until("the disruption controller has counted "+name, func(ctx context.Context) bool {
		b, err = w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == pods && b.Status.DisruptionsAllowed == 0
	})
	return b
}

// terminating reports whether the pod is terminating.
func (w *world) terminating(name string) bool {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	return pod.DeletionTimestamp != nil
}

// evictorFor returns an evictor with those credentials.
func evictorFor(tb testing.TB, config *rest.Config) *evict.Evictor {
	tb.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return evict.New(client.CoreV1().RESTClient(), time.Now)
}

func requestFor(pod *corev1.Pod) evict.Request {
	return evict.Request{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

// expect fails the test unless the result has the outcome and its message contains every
// fragment.
func expect(t *testing.T, got evict.Result, want evict.Outcome, fragments ...string) {
	t.Helper()
	t.Logf("the API server's answer: %s: %s", got.Outcome, got.Message)
	if got.Outcome != want {
		t.Fatalf("outcome %s, want %s: %s", got.Outcome, want, got.Message)
	}
	for _, f := range fragments {
		if !strings.Contains(got.Message, f) {
			t.Errorf("message %q lacks %q", got.Message, f)
		}
	}
}
