package apiclient

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Client sends requests for the kinds of objects that evictd uses. It sends the same requests as
// client-go's clientset, which links the types of all API groups into the program.
type Client struct {
	core, authorization rest.Interface
	parameters          runtime.ParameterCodec
}

// newScheme returns the types of the API groups that evictd uses. Evictions and budgets are of
// policy/v1; pkg/evict sends requests for them through the client of the core API.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	groups := runtime.NewSchemeBuilder(
		corev1.AddToScheme, policyv1.AddToScheme, authorizationv1.AddToScheme,
	)
	if err := groups.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the types of the API: %w", err)
	}
	return scheme, nil
}

// newClient makes a client as kubernetes.NewForConfig makes the clientset: the API groups share a
// connection, and each has its own rate limit.
func newClient(config *rest.Config, scheme *runtime.Scheme) (*Client, error) {
	shared := rest.CopyConfig(config)
	if shared.UserAgent == "" {
		shared.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	connection, err := rest.HTTPClientFor(shared)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	codecs := rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme))
	shared.NegotiatedSerializer = codecs.WithoutConversion()
	c := &Client{parameters: runtime.NewParameterCodec(scheme)}
	for _, group := range []struct {
		version schema.GroupVersion
		path    string
		client  *rest.Interface
	}{
		{corev1.SchemeGroupVersion, "/api", &c.core},
		{authorizationv1.SchemeGroupVersion, "/apis", &c.authorization},
	} {
		one := rest.CopyConfig(shared)
		one.GroupVersion, one.APIPath = &group.version, group.path
		made, err := rest.RESTClientForConfigAndClient(one, connection)
		if err != nil {
			return nil, fmt.Errorf("preparing requests of %s: %w", group.version, err)
		}
		*group.client = made
	}
	return c, nil
}

// Core sends any request of the core API.
func (c *Client) Core() rest.Interface { return c.core }

// Pods is the client of the pods of all namespaces.
func (c *Client) Pods() *gentype.ClientWithList[*corev1.Pod, *corev1.PodList] {
	return gentype.NewClientWithList("pods", c.core, c.parameters, metav1.NamespaceAll,
		func() *corev1.Pod { return &corev1.Pod{} }, func() *corev1.PodList { return &corev1.PodList{} },
		gentype.PrefersProtobuf[*corev1.Pod]())
}

// ConfigMaps is the client of the ConfigMaps of a namespace.
func (c *Client) ConfigMaps(namespace string) *gentype.ClientWithList[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return gentype.NewClientWithList("configmaps", c.core, c.parameters, namespace,
		func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, func() *corev1.ConfigMapList { return &corev1.ConfigMapList{} },
		gentype.PrefersProtobuf[*corev1.ConfigMap]())
}

// Nodes is the client of nodes.
func (c *Client) Nodes() *gentype.Client[*corev1.Node] {
	return gentype.NewClient("nodes", c.core, c.parameters, metav1.NamespaceNone,
		func() *corev1.Node { return &corev1.Node{} }, gentype.PrefersProtobuf[*corev1.Node]())
}

// AccessReviews is the client of SelfSubjectAccessReviews, which say what the account may do.
func (c *Client) AccessReviews() *gentype.Client[*authorizationv1.SelfSubjectAccessReview] {
	return gentype.NewClient("selfsubjectaccessreviews", c.authorization, c.parameters, metav1.NamespaceNone,
		func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
		gentype.PrefersProtobuf[*authorizationv1.SelfSubjectAccessReview]())
}
