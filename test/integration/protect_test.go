package integration

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/rank"
)

// replica creates a ReplicaSet and returns the pod that its controller creates. The change
// applies to the pod's template.
func (w *world) replica(name string, change func(*corev1.PodTemplateSpec)) *corev1.Pod {
	w.t.Helper()
	template := corev1.PodTemplateSpec{
		// A label of that name does not pin the pod.
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name, "nodeName": "label"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	change(&template)
	_, err := w.client.AppsV1().ReplicaSets(w.namespace).Create(w.t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template},
	}, metav1.CreateOptions{})
	w.must(err)
	var made *corev1.Pod
	w.until("the controller has made a pod of "+name, func(ctx context.Context) bool {
		list, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(list.Items) > 0 {
			made = &list.Items[0]
		}
		return made != nil
	})
	return made
}

// bind does what the scheduler does.
func (w *world) bind(pod *corev1.Pod) {
	w.t.Helper()
	w.must(w.client.CoreV1().Pods(w.namespace).Bind(w.t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: w.node},
	}, metav1.CreateOptions{}))
}

// metadata patches a pod's metadata.
func (w *world) metadata(pod *corev1.Pod, fields map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": fields})
	w.must(err)
	_, err = w.client.CoreV1().Pods(w.namespace).Patch(w.t.Context(), pod.Name, types.MergePatchType, text, metav1.PatchOptions{})
	w.must(err)
}

// informed returns evictd's own informer's view of the world's pods, once it has count of
// them. It reads in the given encoding.
func (w *world) informed(encoding string, count int) []*nodepods.Pod {
	w.t.Helper()
	credentials := unlimited()
	credentials.ContentConfig = rest.ContentConfig{ContentType: encoding}
	client, err := kubernetes.NewForConfig(credentials)
	w.must(err)
	pods := nodepods.New(client.CoreV1().Pods(metav1.NamespaceAll), nodepods.Options{NodeName: w.node, Now: time.Now})
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Errorf("the informer ended: %v", err)
		}
	})
	w.until("the informer has the pods", func(context.Context) bool { return pods.Synced() && len(pods.List()) == count })
	return pods.List()
}

// listed returns the pods as `evictd rank` lists them.
func (w *world) listed() []*nodepods.Pod {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + w.node})
	w.must(err)
	pods := make([]*nodepods.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, nodepods.FromAPI(&list.Items[i]))
	}
	return pods
}

// expectReasons fails the test unless the pods, by the label app, are protected for the
// reasons, both in the informer and in a list.
func (w *world) expectReasons(rules rank.Rules, want map[string]rank.Protection) {
	w.t.Helper()
	for name, pods := range map[string][]*nodepods.Pod{
		"informer, JSON":     w.informed("application/json", len(want)),
		"informer, protobuf": w.informed("application/vnd.kubernetes.protobuf", len(want)),
		"list":               w.listed(),
	} {
		if len(pods) != len(want) {
			w.t.Errorf("%s: %d pods, want %d", name, len(pods), len(want))
		}
		for _, pod := range pods {
			facts := pod.Facts(rank.Memory, nodepods.Self{})
			facts.Sampled = true
			if got := rules.Protects(&facts); got != want[pod.Labels["app"]] {
				w.t.Errorf("%s: pod %s is protected as %q, want %q; %+v",
					name, pod.Labels["app"], got, want[pod.Labels["app"]], *pod)
			}
		}
	}
}

// The basis for the protection of pinned pods (internal/nodepods, isPinned): a client that
// creates a pod with spec.nodeName owns that field, and a Binding leaves it without an
// owner.
func TestPinnedPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pinned := func(template *corev1.PodTemplateSpec) { template.Spec.NodeName = w.node }
	scheduled := func(*corev1.PodTemplateSpec) {}
	w.replica("pinned", pinned)
	bound := w.replica("bound", scheduled)
	w.bind(bound)
	w.metadata(bound, map[string]any{"annotations": map[string]any{"touched": "since"}})
	cleared := w.replica("cleared", pinned)
	w.metadata(cleared, map[string]any{"managedFields": []any{map[string]any{}}})
	w.pod("bare", 100) // no controller would create it again
	w.expectReasons(rank.Rules{PinnedPods: true}, map[string]rank.Protection{
		"pinned": rank.ProtectedPinnedToNode, "bound": rank.NotProtected, "cleared": rank.NotProtected, "bare": rank.NotProtected,
	})
	w.expectReasons(rank.Rules{}, map[string]rank.Protection{
		"pinned": rank.NotProtected, "bound": rank.NotProtected, "cleared": rank.NotProtected, "bare": rank.NotProtected,
	})
}

// Later writes leave a pinned pod pinned, and a scheduled one not, even if the whole object
// is written back. A client that may patch a scheduled pod can make it pinned, as
// docs/ranking.md says.
func TestPinnedPodsOverTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pinned := w.replica("pinned", func(template *corev1.PodTemplateSpec) { template.Spec.NodeName = w.node })
	pinned.Status.Phase = corev1.PodRunning
	_, err := w.client.CoreV1().Pods(w.namespace).UpdateStatus(t.Context(), pinned, metav1.UpdateOptions{})
	w.must(err)
	w.metadata(pinned, map[string]any{"labels": map[string]any{"more": "label"}})
	replaced := w.replica("replaced", func(*corev1.PodTemplateSpec) {})
	w.bind(replaced)
	whole, err := w.client.CoreV1().Pods(w.namespace).Get(t.Context(), replaced.Name, metav1.GetOptions{})
	w.must(err)
	whole.Labels["more"] = "label"
	_, err = w.client.CoreV1().Pods(w.namespace).Update(t.Context(), whole, metav1.UpdateOptions{}) // with its node's name
	w.must(err)
	applied := w.replica("applied", func(*corev1.PodTemplateSpec) {})
	w.bind(applied)
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": applied.Name},
		"spec": map[string]any{"nodeName": w.node},
	})
	w.must(err)
	_, err = w.client.CoreV1().Pods(w.namespace).Patch(t.Context(), applied.Name, types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "tenant"})
	w.must(err)
	w.expectReasons(rank.Rules{PinnedPods: true}, map[string]rank.Protection{
		"pinned": rank.ProtectedPinnedToNode, "replaced": rank.NotProtected, "applied": rank.ProtectedPinnedToNode,
	})
}

func TestAnnotationProtectsWhereItIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	annotated := func(value string) func(*corev1.PodTemplateSpec) {
		return func(template *corev1.PodTemplateSpec) {
			template.Annotations = map[string]string{"evictd.dev/evict": value}
		}
	}
	w.bind(w.replica("never", annotated("never")))
	w.bind(w.replica("later", annotated("later")))
	late := w.replica("late", func(*corev1.PodTemplateSpec) {})
	w.bind(late)
	w.metadata(late, map[string]any{"annotations": map[string]any{"evictd.dev/evict": "never"}})
	elsewhere := rank.Rules{Annotated: func(namespace string) bool { return namespace == "other" }}
	w.expectReasons(elsewhere, map[string]rank.Protection{
		"never": rank.NotProtected, "later": rank.NotProtected, "late": rank.NotProtected,
	})
	here := rank.Rules{Annotated: func(namespace string) bool { return namespace == w.namespace }}
	w.expectReasons(here, map[string]rank.Protection{
		"never": rank.ProtectedAnnotation, "later": rank.NotProtected, "late": rank.ProtectedAnnotation,
	})
}
