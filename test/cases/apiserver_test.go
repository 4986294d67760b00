package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	framework "k8s.io/client-go/tools/cache/testing"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// apiServer answers as an API server does what evictd asks one: it lists and watches, evicts, applies
// budgets, and knows evictd's policies and those objects that the case has.
type apiServer struct {
	tb      testing.TB
	lacks   []string
	denial  error // of the policies, to a trial
	answers map[types.UID]*metav1.Status
	objects *framework.FakeControllerSource

	mu      sync.Mutex
	evicted []string
	asked   []string
	notes   []string // the Events that evictd sent
}

// newAPIServer serves a case's objects. A fault is one of the harness or of the case.
func newAPIServer(tb testing.TB, c *Case, n *node, kubeletPort int32) (server *apiServer, url string) {
	tb.Helper()
	a := &apiServer{tb: tb, denial: denial(tb), lacks: c.Lacks, answers: map[types.UID]*metav1.Status{}, objects: framework.NewFakeControllerSource()}
	a.objects.Add(nodeObject(n, kubeletPort))
	a.objects.Add(&corev1.Pod{ // which doctor looks for
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "elsewhere", UID: "elsewhere"}, Spec: corev1.PodSpec{NodeName: "node-b"},
	})
	for _, p := range n.pods {
		a.objects.Add(p.Pod)
		a.answers[p.UID] = p.use.Answer
	}
	for _, object := range c.Objects {
		if object.GetKind() != "PodDisruptionBudget" {
			a.objects.Add(&object)
			continue
		}
		budget := &policyv1.PodDisruptionBudget{} // the API server itself reads it
		n.must(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, budget, true))
		a.objects.Add(budget)
	}
	listening := httptest.NewServer(a)
	tb.Cleanup(listening.Close)
	return a, listening.URL
}

// denial is what the policies of deploy/daemonset.yaml answer together to a trial of the checks.
func denial(tb testing.TB) error {
	tb.Helper()
	var names []string
	policies := evictdtest.ShippedPart(tb, []string{"ValidatingAdmissionPolicy"})
	for _, name := range regexp.MustCompile(`(?m)^metadata:\n  name: (.*)$`).FindAllStringSubmatch(policies, -1) {
		names = append(names, "'"+name[1]+"'")
	}
	return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("ValidatingAdmissionPolicy %s denied request", strings.Join(names, ", ")))
}

// ServeHTTP answers one request.
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := any(nil), a.allowed(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		if err = a.watch(w, r); err == nil {
			return
		}
	}
	if err == nil {
		answer, err = a.answer(r)
	}
	code := http.StatusOK
	switch status := apierrors.APIStatus(nil); {
	case errors.As(err, &status):
		full := status.Status()
		full.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer, code = full, int(full.Code)
	case err != nil:
		a.tb.Errorf("the harness: %s %s: %v", r.Method, r.URL.Path, err)
		code = http.StatusInternalServerError
	case r.Method == http.MethodPost:
		code = http.StatusCreated
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return // evictd has ended
	}
}

// allowed refuses a request for which evictd's account lacks the right, in RBAC's words.
func (a *apiServer) allowed(r *http.Request) error {
	of := regexp.MustCompile(`/v1/(?:namespaces/[^/]+/)?([^/]+)(?:/([^/]+))?(/[^/]+)?$`).FindStringSubmatch(r.URL.Path)
	if of == nil {
		return nil
	}
	resource, name := of[1]+of[3], of[2]
	verb := map[string]string{http.MethodPost: "create", http.MethodPatch: "patch", http.MethodGet: "get"}[r.Method]
	switch {
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	case verb == "get" && name == "":
		verb = "list"
	}
	if !a.lacksRight(verb + " " + resource) {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name,
		fmt.Errorf(`User "system:serviceaccount:evictd:evictd" cannot %s resource %q in API group ""`, verb, resource))
}

func (a *apiServer) answer(r *http.Request) (any, error) {
	at := r.URL.Path
	switch {
	case strings.HasSuffix(r.UserAgent(), "(checks)") && r.URL.Query().Get("dryRun") == metav1.DryRunAll && !a.lacksRight("policies"):
		return nil, a.denial
	case r.Method == http.MethodGet:
		return a.get(at, r.URL.Query().Get("fieldSelector"))
	case strings.HasSuffix(at, "/eviction"):
		return a.evict(r)
	case strings.HasSuffix(at, "/selfsubjectaccessreviews"):
		return a.review(r)
	case strings.HasSuffix(at, "/selfsubjectreviews"):
		return &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{
			Username: "system:serviceaccount:evictd:evictd",
			Extra:    map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/node-name": {nodeName}},
		}}}, nil
	case strings.Contains(at, "/events"):
		return a.note(r)
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: path.Base(path.Dir(at))}, path.Base(at))
}

// get returns an object, or a list.
func (a *apiServer) get(at, selector string) (any, error) {
	if at == "/version" {
		return &version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"}, nil
	}
	wanted, err := fields.ParseSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("the field selector %q: %w", selector, err)
	}
	list := a.list()
	all := list.Items
	list.Items = []runtime.RawExtension{}
	for _, item := range all {
		switch {
		case pathOf(item.Object) == at:
			return item.Object, nil
		case isIn(at, item.Object) && wanted.Matches(fieldsOf(item.Object)):
			list.Items = append(list.Items, item)
		}
	}
	kind, isList := map[string]string{"pods": "PodList", "configmaps": "ConfigMapList"}[path.Base(at)]
	if !isList {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: path.Base(path.Dir(at))}, path.Base(at))
	}
	list.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: kind}
	return list, nil
}

// list returns copies of all objects.
func (a *apiServer) list() *corev1.List {
	listed, err := a.objects.List(metav1.ListOptions{})
	list, is := listed.(*corev1.List)
	if !is {
		a.tb.Errorf("the harness: %T, %v", listed, err)
	}
	return list
}

// pathOf is where Kubernetes has an object.
func pathOf(object runtime.Object) string {
	of := object.GetObjectKind().GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(of)
	at := path.Join("/apis", of.Group, of.Version)
	if of.Group == "" {
		at = path.Join("/api", of.Version)
	}
	if in := named(object).GetNamespace(); in != "" {
		at = path.Join(at, "namespaces", in)
	}
	return path.Join(at, plural.Resource, named(object).GetName())
}

// named is the metadata of an object, which each has.
func named(object runtime.Object) metav1.Object {
	metadata, err := meta.Accessor(object)
	if err != nil {
		return &metav1.ObjectMeta{}
	}
	return metadata
}

// isIn reports whether a list has the object: that of its namespace, or of all.
func isIn(at string, object runtime.Object) bool {
	list := path.Dir(pathOf(object))
	return list == at || strings.Replace(list, "/namespaces/"+named(object).GetNamespace(), "", 1) == at
}

// fieldsOf are the fields by which lists are selected.
func fieldsOf(object runtime.Object) fields.Set {
	set := fields.Set{"metadata.name": named(object).GetName(), "metadata.namespace": named(object).GetNamespace()}
	if p, is := object.(*corev1.Pod); is {
		set["spec.nodeName"] = p.Spec.NodeName
	}
	return set
}

func nodeObject(n *node, kubeletPort int32) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "node"},
		Status: corev1.NodeStatus{
			Capacity:  corev1.ResourceList{corev1.ResourceMemory: *quantity(n.total())},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}, NodeInfo: n.of.Info,
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
		},
	}
}

// watch streams what changes, after what there is where the client asks for that. What changes are pods of the node.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request) error {
	query, events := r.URL.Query(), []watch.Event(nil)
	from := query.Get("resourceVersion")
	if query.Get("sendInitialEvents") == "true" {
		answer, err := a.get(r.URL.Path, query.Get("fieldSelector"))
		list, is := answer.(*corev1.List)
		if !is {
			return err
		}
		for _, item := range list.Items {
			events = append(events, watch.Event{Type: watch.Added, Object: item.Object})
		}
		end := &metav1.PartialObjectMetadata{TypeMeta: list.TypeMeta}
		end.Kind, end.Annotations = strings.TrimSuffix(list.Kind, "List"), map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		from, end.ResourceVersion = list.ResourceVersion, list.ResourceVersion
		events = append(events, watch.Event{Type: watch.Bookmark, Object: end})
	}
	changes, err := a.objects.Watch(metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer changes.Stop()
	w.Header().Set("Content-Type", "application/json")
	for encoder := json.NewEncoder(w); ; {
		for _, event := range events {
			err = encoder.Encode(metav1.WatchEvent{Type: string(event.Type), Object: runtime.RawExtension{Object: event.Object}})
			if err != nil {
				return nil // evictd has ended
			}
		}
		_ = http.NewResponseController(w).Flush() // an error is that of the next event
		events = nil
		select {
		case <-r.Context().Done():
			return nil
		case change := <-changes.ResultChan():
			if isIn(r.URL.Path, change.Object) {
				events = append(events, change)
			}
		}
	}
}

// evict answers an eviction in the API server's order: the pod, its UID, what the case answers,
// and budgets. What is not refused and no dry run is terminating then.
func (a *apiServer) evict(r *http.Request) (any, error) {
	sent, err := decoded(r)
	eviction, is := sent.(*policyv1.Eviction)
	if !is {
		return nil, fmt.Errorf("no eviction: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	resource, name := schema.GroupResource{Resource: "pods"}, path.Base(path.Dir(r.URL.Path))
	found, err := a.get(path.Dir(r.URL.Path), "")
	p, is := found.(*corev1.Pod)
	if !is {
		return nil, err
	}
	options := eviction.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	if of := options.Preconditions; of != nil && of.UID != nil && *of.UID != p.UID {
		return nil, apierrors.NewConflict(resource, name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *of.UID, p.UID))
	}
	if !slices.Contains(a.asked, name) {
		a.asked = append(a.asked, name)
	}
	if answer := a.answers[p.UID]; answer != nil {
		return nil, &apierrors.StatusError{ErrStatus: *answer}
	}
	if err = a.budgetOf(p); err != nil {
		return nil, err
	}
	if !slices.Contains(options.DryRun, metav1.DryRunAll) {
		a.terminate(p, options.GracePeriodSeconds)
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated}, nil
}

// budgetOf refuses what the pod's budget does not allow.
func (a *apiServer) budgetOf(p *corev1.Pod) error {
	var of []*policyv1.PodDisruptionBudget
	for _, item := range a.list().Items {
		budget, is := item.Object.(*policyv1.PodDisruptionBudget)
		if !is || budget.Namespace != p.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			return fmt.Errorf("the budget %s: %w", budget.Name, err)
		}
		if selector.Matches(labels.Set(p.Labels)) {
			of = append(of, budget)
		}
	}
	switch {
	case len(of) > 1:
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	case len(of) == 0 || of[0].Status.DisruptionsAllowed > 0:
		return nil
	}
	refused := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", of[0].Name, of[0].Status.DesiredHealthy, of[0].Status.CurrentHealthy),
	})
	return refused
}

// terminate begins the grace period of a pod.
func (a *apiServer) terminate(p *corev1.Pod, grace *int64) {
	a.evicted = append(a.evicted, p.Name)
	if p.DeletionTimestamp == nil {
		now := metav1.Now()
		p.DeletionTimestamp = &now
	}
	if p.DeletionGracePeriodSeconds = grace; grace == nil {
		p.DeletionGracePeriodSeconds = p.Spec.TerminationGracePeriodSeconds
	}
	a.objects.Modify(p)
}

// change puts fields over a pod, or removes it where there are none.
func (a *apiServer) change(name string, over map[string]any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, err := a.get("/api/v1/namespaces/"+namespace+"/pods/"+name, "")
	p, is := found.(*corev1.Pod)
	if !is {
		return fmt.Errorf("the case: then.pods: %w", err)
	}
	if over == nil {
		a.objects.Delete(p)
		return nil
	}
	if p, err = overlaid(p, over); err == nil {
		a.objects.Modify(p)
	}
	return err
}

func (a *apiServer) review(r *http.Request) (any, error) {
	sent, err := decoded(r)
	review, is := sent.(*authorizationv1.SelfSubjectAccessReview)
	if !is {
		return nil, fmt.Errorf("no review: %w", err)
	}
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	if of := review.Spec.ResourceAttributes; of != nil {
		right := of.Verb + " " + of.Resource
		if of.Subresource != "" {
			right += "/" + of.Subresource
		}
		review.Status.Allowed = !a.lacksRight(right)
	}
	return review, nil
}

func (a *apiServer) lacksRight(right string) bool { return slices.Contains(a.lacks, right) }

// note keeps an Event of evictd's.
func (a *apiServer) note(r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, string(body))
	return json.RawMessage(body), nil
}

// seen returns what the API server was asked until now.
func (a *apiServer) seen(s *Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.evicted, s.asked, s.notes = slices.Clone(a.evicted), slices.Clone(a.asked), slices.Clone(a.notes)
}

// decoded reads the object in a request. Evictd may have ended while it sent it.
func decoded(r *http.Request) (runtime.Object, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return runtime.Decode(scheme.Codecs.UniversalDeserializer(), body)
}
