package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// replica creates a ReplicaSet and returns the pod that its controller creates. The change
// applies to the pod's template.
func replica(w *evictdtest.World, name string, change func(*corev1.PodTemplateSpec)) *corev1.Pod {
	w.T.Helper()
	template := corev1.PodTemplateSpec{
		// A label of that name does not pin the pod.
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name, "nodeName": "label"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	change(&template)
	_, err := w.Client.AppsV1().ReplicaSets(w.Namespace).Create(w.T.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template},
	}, metav1.CreateOptions{})
	w.Must(err)
	var made *corev1.Pod
	w.Until("the controller has made a pod of "+name, func(ctx context.Context) bool {
		list, err := w.Client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(list.Items) > 0 {
			made = &list.Items[0]
		}
		return made != nil
	})
	return made
}

// bind does what the scheduler does.
func bind(w *evictdtest.World, pod *corev1.Pod) {
	w.T.Helper()
	w.Must(w.Client.CoreV1().Pods(w.Namespace).Bind(w.T.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: w.Node},
	}, metav1.CreateOptions{}))
}

// metadata patches a pod's metadata.
func metadata(w *evictdtest.World, pod *corev1.Pod, fields map[string]any) {
	w.T.Helper()
	text, err := json.Marshal(map[string]any{"metadata": fields})
	w.Must(err)
	_, err = w.Client.CoreV1().Pods(w.Namespace).Patch(w.T.Context(), pod.Name, types.MergePatchType, text, metav1.PatchOptions{})
	w.Must(err)
}

// informed returns evictd's own informer's view of the world's pods. It reads in the given encoding.
func informed(w *evictdtest.World, encoding string) func(context.Context) []*nodepods.Pod {
	w.T.Helper()
	credentials := evictdtest.Unlimited()
	credentials.ContentConfig = rest.ContentConfig{ContentType: encoding}
	client := evictdtest.Client(w.T, credentials)
	pods := nodepods.New(client.CoreV1().Pods(metav1.NamespaceAll), nodepods.Options{NodeName: w.Node, Now: time.Now, LabelKeys: []string{"app"}})
	ctx, stop := context.WithCancel(w.T.Context())
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	w.T.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.T.Errorf("the informer ended: %v", err)
		}
	})
	w.Until("the informer has the pods", func(context.Context) bool { return pods.Synced() })
	return func(context.Context) []*nodepods.Pod { return pods.List() }
}

// listed returns the pods as `evictd rank` lists them.
func listed(w *evictdtest.World) func(context.Context) []*nodepods.Pod {
	return func(ctx context.Context) (pods []*nodepods.Pod) {
		list, err := w.Client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + w.Node})
		if err != nil {
			return nil
		}
		for i := range list.Items {
			pods = append(pods, nodepods.FromAPI(&list.Items[i]))
		}
		return pods
	}
}

// expectReasons waits until the pods, by the label app, are protected for the reasons, both in the
// informer, which may read from a cache, and in a list.
func expectReasons(w *evictdtest.World, rules rank.Rules, want map[string]rank.Protection) {
	w.T.Helper()
	for name, pods := range map[string]func(context.Context) []*nodepods.Pod{
		"informer, JSON":     informed(w, "application/json"),
		"informer, protobuf": informed(w, "application/vnd.kubernetes.protobuf"),
		"list":               listed(w),
	} {
		var got map[string]rank.Protection
		w.Until(name+": the pods are protected as they should be", func(ctx context.Context) bool {
			got = map[string]rank.Protection{}
			for _, pod := range pods(ctx) {
				facts := pod.Facts(rank.Memory, nodepods.Self{})
				facts.Sampled = true
				got[pod.Labels["app"]] = rules.Protects(&facts)
			}
			return maps.Equal(got, want)
		}, func() string { return fmt.Sprintf("protected as %v, want %v", got, want) })
	}
}

// The basis for the protection of pinned pods (internal/nodepods, isPinned): a client that
// creates a pod with spec.nodeName owns that field, and a Binding leaves it without an
// owner.
func TestPinnedPods(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pinned := func(template *corev1.PodTemplateSpec) { template.Spec.NodeName = w.Node }
	scheduled := func(*corev1.PodTemplateSpec) {}
	replica(w, "pinned", pinned)
	bound := replica(w, "bound", scheduled)
	bind(w, bound)
	metadata(w, bound, map[string]any{"annotations": map[string]any{"touched": "since"}})
	cleared := replica(w, "cleared", pinned)
	metadata(w, cleared, map[string]any{"managedFields": []any{map[string]any{}}})
	w.Pod("bare", 100) // no controller would create it again
	expectReasons(w, rank.Rules{PinnedPods: true}, map[string]rank.Protection{
		"pinned": rank.ProtectedPinnedToNode, "bound": rank.NotProtected, "cleared": rank.NotProtected, "bare": rank.NotProtected,
	})
	expectReasons(w, rank.Rules{}, map[string]rank.Protection{
		"pinned": rank.NotProtected, "bound": rank.NotProtected, "cleared": rank.NotProtected, "bare": rank.NotProtected,
	})
}

// Later writes leave a pinned pod pinned, and a scheduled one not, even if the whole object
// is written back. A client that may patch a scheduled pod can make it pinned, as
// docs/ranking.md says.
func TestPinnedPodsOverTime(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pinned := replica(w, "pinned", func(template *corev1.PodTemplateSpec) { template.Spec.NodeName = w.Node })
	pinned.Status.Phase = corev1.PodRunning
	_, err := w.Client.CoreV1().Pods(w.Namespace).UpdateStatus(t.Context(), pinned, metav1.UpdateOptions{})
	w.Must(err)
	metadata(w, pinned, map[string]any{"labels": map[string]any{"more": "label"}})
	replaced := replica(w, "replaced", func(*corev1.PodTemplateSpec) {})
	bind(w, replaced)
	whole, err := w.Client.CoreV1().Pods(w.Namespace).Get(t.Context(), replaced.Name, metav1.GetOptions{})
	w.Must(err)
	whole.Labels["more"] = "label"
	_, err = w.Client.CoreV1().Pods(w.Namespace).Update(t.Context(), whole, metav1.UpdateOptions{}) // with its node's name
	w.Must(err)
	applied := replica(w, "applied", func(*corev1.PodTemplateSpec) {})
	bind(w, applied)
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": applied.Name},
		"spec": map[string]any{"nodeName": w.Node},
	})
	w.Must(err)
	_, err = w.Client.CoreV1().Pods(w.Namespace).Patch(t.Context(), applied.Name, types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "tenant"})
	w.Must(err)
	expectReasons(w, rank.Rules{PinnedPods: true}, map[string]rank.Protection{
		"pinned": rank.ProtectedPinnedToNode, "replaced": rank.NotProtected, "applied": rank.ProtectedPinnedToNode,
	})
}
