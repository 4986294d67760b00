package apiclient

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
)

// EventSink sends Events for client-go's queue of Events (tools/record), which passes no context:
// only the client's timeout ends a request.
type EventSink struct{ client *Client }

// EventSink returns what sends Events.
func (c *Client) EventSink() EventSink { return EventSink{c} }

// in is the client of the Events of a namespace. It sends JSON, as client-go's own sink does.
func (s EventSink) in(namespace string) *gentype.Client[*corev1.Event] {
	return gentype.NewClient("events", s.client.core, s.client.parameters, namespace,
		func() *corev1.Event { return &corev1.Event{} })
}

// Create sends an Event to its namespace.
func (s EventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	return s.in(event.Namespace).Create(context.Background(), event, metav1.CreateOptions{})
}

// Update replaces an Event.
func (s EventSink) Update(event *corev1.Event) (*corev1.Event, error) {
	return s.in(event.Namespace).Update(context.Background(), event, metav1.UpdateOptions{})
}

// Patch changes an Event, for example to count that it was repeated.
func (s EventSink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.in(event.Namespace).Patch(context.Background(), event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}
