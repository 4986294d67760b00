// Package apiclient makes evictd's clients of the API server from credentials: which requests
// share a connection, which of them have a time limit, and how soon a lost connection and an
// expired token are noticed. They send the same requests as client-go's clientset, which links the
// types of all API groups into the program; see docs/adr/0033-clients-of-two-api-groups.md.
package apiclient

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// unlimited switches off client-go's own rate limit. The configuration limits evictions; a
// wait inside the client would come at the worst moment and would not be visible.
const unlimited = -1

// readTimeout bounds every request that is not a watch or an eviction.
const readTimeout = 15 * time.Second

// Clients are the clients for the API server. Evictions have their own, so that events and
// lists cannot starve them. client-go's transport sends all of them through one HTTP/2
// connection, which the watch keeps open: the first eviction after a month needs no
// handshake.
type Clients struct {
	// Watching is for the pods, and the ConfigMap that stops evictd. It has no timeout, or it would end the watch.
	Watching *Client
	// Evicting is for evictions and taints. Each request's context sets its timeout.
	Evicting *Client
	// Telling is for Events, and for reads that can wait.
	Telling *Client
	// Config has the credentials, and the server's address as Host.
	Config *rest.Config
}

// New makes the clients with the credentials of base, which it changes: the token file is
// re-read as soon as the API server rejects its previous content. With an error they cannot be used.
func New(base *rest.Config) (*Clients, error) {
	lostConnection()
	if base.BearerTokenFile != "" { // by itself client-go re-reads it once a minute, whatever the responses are
		base.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(base.BearerTokenFile)))
		base.BearerToken, base.BearerTokenFile = "", ""
	}
	watches, evictions, others := rest.CopyConfig(base), rest.CopyConfig(base), rest.CopyConfig(base)
	evictions.QPS, others.Timeout = unlimited, readTimeout
	watching, err := newClient(watches)
	evicting, fault := newClient(evictions)
	telling, bad := newClient(others)
	return &Clients{watching, evicting, telling, base}, cmp.Or(err, fault, bad) // all have one configuration
}

// lostConnection sets after how many seconds of silence client-go pings the API server, and
// how long it waits for the reply before it closes the connection. With its own defaults, 30
// and 15, an eviction would wait for 45 s on a connection that a device in between has
// dropped. Only the environment can set them (k8s.io/apimachinery/pkg/util/net); values that
// are already set are kept.
func lostConnection() {
	for name, seconds := range map[string]string{
		"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "10",
		"HTTP2_PING_TIMEOUT_SECONDS":      "5",
	} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, seconds) // it refuses other names alone
		}
	}
}

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

// Send sends a request once, in ten seconds at most, and returns the answer's text; with an error that is not what was
// asked for. The path may have a query; body is JSON, "" for none. It never tries again: a check that was not answered
// says so. An error of the API server is an APIStatus.
func (c *Client) Send(ctx context.Context, method, path, body string) ([]byte, error) {
	contents := "application/json"
	if method == http.MethodPatch {
		contents = string(types.MergePatchType)
	}
	result := c.Verb(method).RequestURI(path).Timeout(10*time.Second).MaxRetries(0).
		SetHeader("Content-Type", contents).Body([]byte(body)).Do(ctx)
	text, _ := result.Raw()
	return text, result.Error()
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
