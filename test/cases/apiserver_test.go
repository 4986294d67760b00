package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strconv"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// apiServer answers as an API server does what evictd asks one: it lists and watches, evicts, applies
// budgets, and knows evictd's policies and those objects that the case has.
type apiServer struct {
	tb      testing.TB
	node    *node
	lacks   []string
	denial  error // of the policies, to a trial
	port    int32 // of the kubelet
	answers map[types.UID]*metav1.Status
	budgets []policyv1.PodDisruptionBudget
	objects map[string]json.RawMessage // by their path

	mu      sync.Mutex
	changed *sync.Cond
	pods    []*corev1.Pod
	events  []metav1.WatchEvent // of pods; that at i has the resource version i + 2
	evicted []string
	asked   []string
	notes   []string // the Events that evictd sent
}

// newAPIServer serves a case's objects. A fault is one of the harness or of the case.
func newAPIServer(tb testing.TB, c *Case, n *node, kubeletPort int32) (server *apiServer, url string) {
	tb.Helper()
	a := &apiServer{tb: tb, denial: denial(tb), node: n, lacks: c.Lacks, port: kubeletPort, answers: map[types.UID]*metav1.Status{}, objects: map[string]json.RawMessage{}}
	a.changed = sync.NewCond(&a.mu)
	a.pods = append(a.pods, elsewhere())
	for _, p := range n.pods {
		a.pods = append(a.pods, p.Pod)
		a.answers[p.UID] = p.use.Answer
	}
	for _, object := range c.Objects {
		n.must(a.add(&object))
	}
	listening := httptest.NewServer(a)
	tb.Cleanup(listening.Close)
	return a, listening.URL
}

// denial is what the policies of deploy/daemonset.yaml answer together to a trial of the checks.
func denial(tb testing.TB) error {
	tb.Helper()
	text, err := os.ReadFile("../../deploy/daemonset.yaml")
	if err != nil {
		tb.Fatalf("the harness: %v", err)
	}
	var names []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object unstructured.Unstructured
		if err = yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			tb.Fatalf("the harness: deploy/daemonset.yaml: %v", err)
		}
		if object.GetKind() == "ValidatingAdmissionPolicy" {
			names = append(names, "'"+object.GetName()+"'")
		}
	}
	return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("ValidatingAdmissionPolicy %s denied request", strings.Join(names, ", ")))
}

// elsewhere is a pod of another node, which doctor looks for.
func elsewhere() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "elsewhere", UID: "elsewhere"}, Spec: corev1.PodSpec{NodeName: "node-b"}}
}

// add keeps an object by the path that Kubernetes gives it.
func (a *apiServer) add(object *unstructured.Unstructured) error {
	if object.GetKind() == "PodDisruptionBudget" {
		var budget policyv1.PodDisruptionBudget
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &budget, true); err != nil {
			return fmt.Errorf("the case: objects: %s: %w", object.GetName(), err)
		}
		a.budgets = append(a.budgets, budget)
	}
	of := object.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(of)
	at := path.Join("/apis", of.Group, of.Version)
	if of.Group == "" {
		at = path.Join("/api", of.Version)
	}
	if object.GetNamespace() != "" {
		at = path.Join(at, "namespaces", object.GetNamespace())
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("the case: objects: %w", err)
	}
	a.objects[path.Join(at, plural.Resource, object.GetName())] = text
	return nil
}

// ServeHTTP answers one request.
func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := any(nil), a.allowed(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		a.watch(w, r)
		return
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
	_, rest, _ := strings.Cut(r.URL.Path, "/v1/")
	parts := strings.Split(rest, "/")
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	verb, resource, name := map[string]string{http.MethodPost: "create", http.MethodPatch: "patch", http.MethodGet: "get"}[r.Method], parts[0], ""
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
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
	case strings.HasSuffix(r.UserAgent(), "(checks)") && r.URL.Query().Get("dryRun") == metav1.DryRunAll:
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

// get returns an object, or a list of pods or of the case's objects.
func (a *apiServer) get(at, selector string) (any, error) {
	switch at {
	case "/version":
		return &version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"}, nil
	case "/api/v1/nodes/" + nodeName:
		return a.nodeObject(), nil
	}
	if object, is := a.objects[at]; is {
		return object, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if path.Base(at) == "pods" {
		selected, err := a.selected(at, selector)
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: a.version()}}
		for _, p := range selected {
			list.Items = append(list.Items, *p)
		}
		return list, err
	}
	for _, p := range a.pods {
		if at == "/api/v1/namespaces/"+p.Namespace+"/pods/"+p.Name {
			return p, nil
		}
	}
	if path.Base(at) == "configmaps" {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": map[string]any{"resourceVersion": "1"}, "items": a.below(at)}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: path.Base(path.Dir(at))}, path.Base(at))
}

// version is the resource version of all pods now.
func (a *apiServer) version() string { return strconv.Itoa(len(a.events) + 1) }

// selected returns pods of a path, by a field selector.
func (a *apiServer) selected(at, selector string) ([]*corev1.Pod, error) {
	wanted, err := fields.ParseSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("the field selector %q: %w", selector, err)
	}
	var pods []*corev1.Pod
	for _, p := range a.pods {
		inPath := at == "/api/v1/pods" || at == "/api/v1/namespaces/"+p.Namespace+"/pods"
		if inPath && wanted.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName, "metadata.name": p.Name, "metadata.namespace": p.Namespace}) {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// below returns the case's objects of a path.
func (a *apiServer) below(at string) []json.RawMessage {
	all := []json.RawMessage{}
	for of, object := range a.objects {
		if path.Dir(of) == at {
			all = append(all, object)
		}
	}
	return all
}

func (a *apiServer) nodeObject() *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "node"},
		Status: corev1.NodeStatus{
			Capacity:  corev1.ResourceList{corev1.ResourceMemory: *quantity(a.node.total())},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}, NodeInfo: a.node.of.Info,
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: a.port}},
		},
	}
}

// watch streams what changes, after what there is where the client asks for that.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	next, isPods := 0, path.Base(r.URL.Path) == "pods"
	var events []metav1.WatchEvent
	a.mu.Lock()
	if query.Get("sendInitialEvents") == "true" {
		var err error
		if events, err = a.initial(r.URL.Path, query.Get("fieldSelector")); err != nil {
			a.tb.Errorf("the harness: %v", err)
		}
		next = len(a.events)
	} else if from, err := strconv.Atoi(query.Get("resourceVersion")); err == nil {
		next = max(0, from-1)
	}
	a.mu.Unlock()
	defer context.AfterFunc(r.Context(), func() { a.mu.Lock(); defer a.mu.Unlock(); a.changed.Broadcast() })()
	w.Header().Set("Content-Type", "application/json")
	for encoder := json.NewEncoder(w); ; {
		for _, event := range events {
			if err := encoder.Encode(event); err != nil {
				return
			}
		}
		_ = http.NewResponseController(w).Flush() // evictd may have ended
		a.mu.Lock()
		for r.Context().Err() == nil && (!isPods || next >= len(a.events)) {
			a.changed.Wait()
		}
		if r.Context().Err() != nil {
			a.mu.Unlock()
			return
		}
		events, next = slices.Clone(a.events[next:]), len(a.events)
		a.mu.Unlock()
	}
}

// initial are the events of a watch that begins with a list, and the bookmark at its end.
func (a *apiServer) initial(at, selector string) ([]metav1.WatchEvent, error) {
	var events []metav1.WatchEvent
	end := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	if path.Base(at) == "pods" {
		end.Kind = "Pod"
		pods, err := a.selected(at, selector)
		if err != nil {
			return nil, err
		}
		for _, p := range pods {
			events = append(events, event("ADDED", p))
		}
	}
	for _, object := range a.below(at) {
		events = append(events, metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: object}})
	}
	end.ResourceVersion, end.Annotations = a.version(), map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return append(events, event("BOOKMARK", end)), nil
}

// event holds the object as it is now.
func event(kind string, object runtime.Object) metav1.WatchEvent {
	return metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Object: object.DeepCopyObject()}}
}

// evict answers an eviction in the API server's order: the pod, its UID, what the case answers,
// and budgets. What is not refused and no dry run is terminating then.
func (a *apiServer) evict(r *http.Request) (any, error) {
	sent, err := decoded[*policyv1.Eviction](r)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	resource, name := schema.GroupResource{Resource: "pods"}, path.Base(path.Dir(r.URL.Path))
	i := slices.IndexFunc(a.pods, func(p *corev1.Pod) bool {
		return path.Join("/api/v1/namespaces", p.Namespace, "pods", p.Name, "eviction") == r.URL.Path
	})
	if i < 0 {
		return nil, apierrors.NewNotFound(resource, name)
	}
	p, options := a.pods[i], sent.DeleteOptions
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
		a.terminate(i, options.GracePeriodSeconds)
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated}, nil
}

// budgetOf refuses what the pod's budget does not allow.
func (a *apiServer) budgetOf(p *corev1.Pod) error {
	var of []policyv1.PodDisruptionBudget
	for _, budget := range a.budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			return fmt.Errorf("the budget %s: %w", budget.Name, err)
		}
		if budget.Namespace == p.Namespace && selector.Matches(labels.Set(p.Labels)) {
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
func (a *apiServer) terminate(i int, grace *int64) {
	p := a.pods[i].DeepCopy()
	a.evicted = append(a.evicted, p.Name)
	if p.DeletionTimestamp == nil {
		now := metav1.Now()
		p.DeletionTimestamp = &now
	}
	if p.DeletionGracePeriodSeconds = grace; grace == nil {
		p.DeletionGracePeriodSeconds = p.Spec.TerminationGracePeriodSeconds
	}
	a.pods[i] = p
	a.publish("MODIFIED", p)
}

// change puts fields over a pod.
func (a *apiServer) change(name string, over map[string]any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.pods, func(p *corev1.Pod) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("the case: then.pods: there is no pod %q", name)
	}
	p, err := overlaid(a.pods[i], over)
	if err != nil {
		return err
	}
	a.pods[i] = p
	a.publish("MODIFIED", p)
	return nil
}

// remove removes a pod.
func (a *apiServer) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.IndexFunc(a.pods, func(p *corev1.Pod) bool { return p.Name == name }); i >= 0 {
		p := a.pods[i].DeepCopy()
		a.pods = slices.Delete(a.pods, i, i+1)
		a.publish("DELETED", p)
	}
}

func (a *apiServer) publish(kind string, p *corev1.Pod) {
	p.ResourceVersion = strconv.Itoa(len(a.events) + 2)
	a.events = append(a.events, event(kind, p))
	a.changed.Broadcast()
}

func (a *apiServer) review(r *http.Request) (any, error) {
	review, err := decoded[*authorizationv1.SelfSubjectAccessReview](r)
	if err != nil {
		return nil, err
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
func decoded[T runtime.Object](r *http.Request) (T, error) {
	var none T
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return none, apierrors.NewBadRequest(err.Error())
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return none, apierrors.NewBadRequest(err.Error())
	}
	read, is := object.(T)
	if !is {
		return none, apierrors.NewBadRequest(fmt.Sprintf("%T is not what is expected here", object))
	}
	return read, nil
}
