package apiclient

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Client sends any request of the core API, with clients for the kinds of objects that evictd uses.
type Client struct {
	rest.Interface

	parameters runtime.ParameterCodec
}

// newClient makes a client as kubernetes.NewForConfig makes the clientset, with the types of the API groups
// that evictd uses. Requests for the other group go through the client of the core API. It changes the
// configuration.
func newClient(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	groups := runtime.NewSchemeBuilder(corev1.AddToScheme, policyv1.AddToScheme)
	if err := groups.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the types of the API: %w", err)
	}
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	core, err := rest.RESTClientFor(config)
	return &Client{core, runtime.NewParameterCodec(scheme)}, err
}

func empty[T any]() *T { return new(T) }

// Pods is the client of the pods of all namespaces.
func (c *Client) Pods() *gentype.ClientWithList[*corev1.Pod, *corev1.PodList] {
	return gentype.NewClientWithList("pods", c, c.parameters, metav1.NamespaceAll,
		empty[corev1.Pod], empty[corev1.PodList], gentype.PrefersProtobuf[*corev1.Pod]())
}

// ConfigMaps is the client of the ConfigMaps of a namespace.
func (c *Client) ConfigMaps(namespace string) *gentype.ClientWithList[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return gentype.NewClientWithList("configmaps", c, c.parameters, namespace,
		empty[corev1.ConfigMap], empty[corev1.ConfigMapList], gentype.PrefersProtobuf[*corev1.ConfigMap]())
}

// Nodes is the client of nodes.
func (c *Client) Nodes() *gentype.Client[*corev1.Node] {
	return gentype.NewClient("nodes", c, c.parameters, metav1.NamespaceNone,
		empty[corev1.Node], gentype.PrefersProtobuf[*corev1.Node]())
}

// EventSink sends Events for client-go's queue of Events (tools/record), which passes no context:
// only the client's timeout ends a request.
type EventSink struct{ *Client }

// in is the client of the Events of a namespace. It sends JSON, as client-go's own sink does.
func (s EventSink) in(namespace string) *gentype.Client[*corev1.Event] {
	return gentype.NewClient("events", s.Client, s.parameters, namespace, empty[corev1.Event])
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
