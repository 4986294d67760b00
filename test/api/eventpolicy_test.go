package api

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// recount increments the count of an Event, as client-go does.
func recount(f *evictdtest.Account, ctx context.Context, as *rest.Config, name string) error {
	f.T.Helper()
	_, err := f.As(as).CoreV1().Events(f.Namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
	return err
}

// Evictd can still write Events about its own node, and can neither write nor change any
// other Event of the cluster.
func eventsAreConfined(t *testing.T, f *evictdtest.Account) {
	t.Helper()
	const source, node = "whose source is evictd on that node", "no Event on another node"
	f.Must(f.WriteEvent(t.Context(), f.Here, "own", func(*corev1.Event) {}))
	f.Must(recount(f, t.Context(), f.Here, "own"))
	onNode := func(name string) func(*corev1.Event) {
		return func(e *corev1.Event) {
			e.InvolvedObject = corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name}
			e.Namespace = metav1.NamespaceDefault
		}
	}
	f.Must(f.WriteEvent(t.Context(), f.Here, "on-"+f.Near, onNode(f.Near)))
	refused(t, "on another node", f.WriteEvent(t.Context(), f.Here, "on-"+f.Far, onNode(f.Far)), node)
	for what, change := range map[string]func(*corev1.Event){
		"the kubelet's":          func(e *corev1.Event) { e.Source.Component = "kubelet" },
		"another node's":         func(e *corev1.Event) { e.Source.Host = f.Far },
		"of no source":           func(e *corev1.Event) { e.Source = corev1.EventSource{} },
		"of another reporter":    func(e *corev1.Event) { e.ReportingController = "kubelet" },
		"of a reporter far away": func(e *corev1.Event) { e.ReportingInstance = f.Far },
	} {
		refused(t, what, f.WriteEvent(t.Context(), f.Here, "not-own", change), source)
	}
	refused(t, "by a token without a node", f.WriteEvent(t.Context(), f.Nowhere, "not-own", func(*corev1.Event) {}), "token that names its node")
	f.Must(f.WriteEvent(t.Context(), evictdtest.Unlimited(), "others", func(e *corev1.Event) { e.Source.Component = "scheduler" }))
	refused(t, "changing another's", recount(f, t.Context(), f.Here, "others"), source)
	f.Must(recount(f, t.Context(), evictdtest.Unlimited(), "others"))
}
