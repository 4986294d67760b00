package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// event writes an Event of the near node's evictd, with the change, as a dry run where it is
// a probe.
func (f *fenced) event(ctx context.Context, as *rest.Config, name string, change func(*corev1.Event)) error {
	f.t.Helper()
	made := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: f.namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: f.namespace, Name: "web"},
		Source:         corev1.EventSource{Component: "evictd", Host: f.near},
		Reason:         "EvictionRequested", Message: "one", Type: corev1.EventTypeWarning,
		ReportingController: "evictd", ReportingInstance: f.near,
	}
	change(made)
	options := metav1.CreateOptions{}
	if name == "probe" {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err := f.as(as).CoreV1().Events(made.Namespace).Create(ctx, made, options)
	return err
}

// recount increments the count of an Event, as client-go does.
func (f *fenced) recount(ctx context.Context, as *rest.Config, name string) error {
	f.t.Helper()
	_, err := f.as(as).CoreV1().Events(f.namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
	return err
}

// Evictd can still write Events about its own node, and can neither write nor change any
// other Event of the cluster.
func eventsAreConfined(t *testing.T, f *fenced) {
	t.Helper()
	const source, node = "whose source is evictd on that node", "no Event on another node"
	f.must(f.event(t.Context(), f.here, "own", func(*corev1.Event) {}))
	f.must(f.recount(t.Context(), f.here, "own"))
	onNode := func(name string) func(*corev1.Event) {
		return func(e *corev1.Event) {
			e.InvolvedObject = corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name}
			e.Namespace = metav1.NamespaceDefault
		}
	}
	f.must(f.event(t.Context(), f.here, "on-"+f.near, onNode(f.near)))
	refused(t, "on another node", f.event(t.Context(), f.here, "on-"+f.far, onNode(f.far)), node)
	for what, change := range map[string]func(*corev1.Event){
		"the kubelet's":          func(e *corev1.Event) { e.Source.Component = "kubelet" },
		"another node's":         func(e *corev1.Event) { e.Source.Host = f.far },
		"of no source":           func(e *corev1.Event) { e.Source = corev1.EventSource{} },
		"of another reporter":    func(e *corev1.Event) { e.ReportingController = "kubelet" },
		"of a reporter far away": func(e *corev1.Event) { e.ReportingInstance = f.far },
	} {
		refused(t, what, f.event(t.Context(), f.here, "not-own", change), source)
	}
	refused(t, "by a token without a node", f.event(t.Context(), f.nowhere, "not-own", func(*corev1.Event) {}), "token that names its node")
	f.must(f.event(t.Context(), unlimited(), "others", func(e *corev1.Event) { e.Source.Component = "scheduler" }))
	refused(t, "changing another's", f.recount(t.Context(), f.here, "others"), source)
	f.must(f.recount(t.Context(), unlimited(), "others"))
}
