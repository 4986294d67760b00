package api

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// replica creates a ReplicaSet and returns the pod that its controller creates, with more in its spec.
func replica(w *evictdtest.World, name, more string) *corev1.Pod {
	w.T.Helper()
	const set = `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME, nodeName: label}} # a label of that name does not pin the pod
    spec: {containers: [{name: c, image: none}], MORE}
`
	w.Kubectl(w.T.Context(), strings.NewReplacer("NAME", name, "MORE", more).Replace(set), "-n", w.Namespace, "create", "-f", "-")
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

// pinned returns, by the label app, whether the pods that evictd's own informer has are pinned. It reads in
// the given encoding until the test ends.
func pinned(w *evictdtest.World, encoding string) func() map[string]bool {
	w.T.Helper()
	credentials := evictdtest.Unlimited()
	credentials.ContentConfig = rest.ContentConfig{ContentType: encoding}
	client := evictdtest.Client(w.T, credentials)
	pods := nodepods.New(client.CoreV1().Pods(metav1.NamespaceAll), nodepods.Options{
		NodeName: w.Node, Now: time.Now, LabelKeys: []string{"app"}, OnError: func(error) {},
	})
	ctx, stop := context.WithCancel(w.T.Context())
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	w.T.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.T.Errorf("the informer ended: %v", err)
		}
	})
	return func() map[string]bool {
		are := map[string]bool{}
		for _, pod := range pods.List() {
			are[pod.Labels["app"]] = pod.Pinned
		}
		return are
	}
}

// The basis for the protection of pinned pods (internal/nodepods, isPinned): a client that
// creates a pod with spec.nodeName owns that field, and a Binding leaves it without an
// owner. Later writes change neither, even if the whole object is written back. A client that may patch
// a scheduled pod can make it pinned, as docs/ranking.md says.
func TestPinnedPods(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pods := w.Client.CoreV1().Pods(w.Namespace)
	toNode := "nodeName: " + w.Node
	scheduled := func(name string) *corev1.Pod {
		made := replica(w, name, "")
		bind(w, made)
		return made
	}
	toIt := replica(w, "pinned", toNode)
	toIt.Status.Phase = corev1.PodRunning
	_, err := pods.UpdateStatus(t.Context(), toIt, metav1.UpdateOptions{})
	w.Must(err)
	kubectl := func(arguments ...string) {
		w.Kubectl(t.Context(), "", append([]string{"-n", w.Namespace}, arguments...)...)
	}
	kubectl("label", "pod", toIt.Name, "more=label")
	kubectl("patch", "pod", replica(w, "cleared", toNode).Name, "--patch", `{"metadata":{"managedFields":[{}]}}`, "--type=merge")
	w.Pod("bare", 100) // no controller would create it again
	kubectl("annotate", "pod", scheduled("bound").Name, "touched=since")
	whole, err := pods.Get(t.Context(), scheduled("replaced").Name, metav1.GetOptions{})
	w.Must(err)
	whole.Labels["more"] = "label"
	_, err = pods.Update(t.Context(), whole, metav1.UpdateOptions{}) // with its node's name
	w.Must(err)
	applied := scheduled("applied").Name
	text := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"nodeName": %q}}`, applied, w.Node)
	_, err = pods.Patch(t.Context(), applied, types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "tenant"})
	w.Must(err)

	want := map[string]bool{"pinned": true, "cleared": false, "bare": false, "bound": false, "replaced": false, "applied": true}
	for _, encoding := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		are := pinned(w, encoding)
		w.Until(encoding+": exactly the pinned pods are that", func(context.Context) bool { return maps.Equal(are(), want) },
			func() string { return fmt.Sprintf("pinned: %v, want %v", are(), want) })
	}
}
