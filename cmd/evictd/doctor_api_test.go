package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// doctorAPI is an API server with a kubelet, as evictd's account sees them where all is in order.
// The fields break it.
type doctorAPI struct {
	url, kubelet  string
	memory        string // of the node
	images        []object
	account       string
	claim         []string // of the token
	lacks         string   // a right
	alone         bool     // no pod is on another node
	kubeletStatus int
	status        map[string]int // of a path
	policies      []string       // in force

	mu     sync.Mutex
	writes []string // requests that are neither reads, reviews nor dry runs
	tokens []string // that the kubelet was asked with
}

func newDoctorAPI(t *testing.T) *doctorAPI {
	t.Helper()
	a := &doctorAPI{
		memory: "25165824Ki", account: "system:serviceaccount:evictd:evictd", claim: []string{"node-1"},
		kubeletStatus: http.StatusOK, status: map[string]int{},
		policies: []string{"evictd-evicts-on-own-node", "evictd-on-own-node", "evictd-taints-own-node", "evictd-events-of-own-node"},
	}
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(a.summary))
	kubelet.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log the rejected certificate
	kubelet.StartTLS()
	t.Cleanup(kubelet.Close)
	a.url, a.kubelet = serving(t, a), kubelet.Listener.Addr().String()
	return a
}

// fails answers requests to a path with a status.
func (a *doctorAPI) fails(path string, status int) { a.status[path] = status }

func (a *doctorAPI) lackPolicy(name string) {
	a.policies = slices.DeleteFunc(a.policies, func(policy string) bool { return policy == name })
}

func (a *doctorAPI) wrote() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.writes)
}

// tokensForTheKubelet returns the credentials of the requests to the kubelet since the last call.
func (a *doctorAPI) tokensForTheKubelet() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	tokens := a.tokens
	a.tokens = nil
	return tokens
}

func (a *doctorAPI) summary(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.tokens = append(a.tokens, r.Header.Get("Authorization"))
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.kubeletStatus)
	_, _ = io.WriteString(w, `{"node": {"nodeName": "node-1"}, "pods": []}`)
}

func (a *doctorAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/selfsubject") && r.URL.Query().Get("dryRun") != metav1.DryRunAll {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"dryRun":["All"]`) {
			a.mu.Lock()
			a.writes = append(a.writes, r.Method+" "+r.URL.Path+" "+string(body))
			a.mu.Unlock()
		}
	}
	answer, err := a.answer(r)
	if err != nil {
		fail(w, err)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) //nolint:errchkjson // of this file
}

// object is a JSON object.
type object = map[string]any

func (a *doctorAPI) answer(r *http.Request) (any, *apierrors.StatusError) {
	path := r.URL.Path
	last := path[strings.LastIndex(path, "/")+1:]
	if status := a.status[path]; status != 0 {
		return nil, apierrors.NewGenericServerResponse(status, "get", schema.GroupResource{Resource: last}, "", "planted", 0, false)
	}
	switch {
	case path == "/version":
		return object{"gitVersion": "v1.37.1"}, nil
	case path == "/api/v1/nodes/node-1" && r.Method == http.MethodGet:
		return a.node(), nil
	case path == "/api/v1/nodes/node-1":
		return a.node(), a.denied("evictd-taints-own-node")
	case path == "/api/v1/namespaces/evictd/pods": // of evictd on other nodes: this is the only one
		return object{"items": []object{}}, nil
	case path == "/api/v1/pods":
		if r.URL.Query().Get("fieldSelector") != "spec.nodeName!=node-1" || a.alone {
			return object{"items": []object{}}, nil
		}
		return object{"items": []object{{"metadata": object{"namespace": "shop", "name": "theirs", "uid": "u"}}}}, nil
	case path == "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		extra := object{"authentication.kubernetes.io/node-name": a.claim}
		return object{"status": object{"userInfo": object{"username": a.account, "extra": extra}}}, nil
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		return a.review(r), nil
	case strings.HasSuffix(path, "/pods/theirs/eviction"):
		if err := a.denied("evictd-evicts-on-own-node"); err != nil {
			return nil, err
		}
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "theirs", errors.New("the UID in the precondition does not match"))
	case strings.HasSuffix(path, "/eviction"):
		if err := a.denied("evictd-on-own-node"); err != nil {
			return nil, err
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "evictd-doctor-no-pod")
	case strings.HasSuffix(path, "/events"):
		return object{"kind": "Event", "apiVersion": "v1"}, a.denied("evictd-events-of-own-node")
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: path}, last)
}

// denied is a policy's denial; nil where it is not in force.
func (a *doctorAPI) denied(policy string) *apierrors.StatusError {
	if !slices.Contains(a.policies, policy) {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "y", fmt.Errorf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: no", policy, policy))
}

func (a *doctorAPI) review(r *http.Request) any {
	review := &authorizationv1.SelfSubjectAccessReview{}
	err := json.NewDecoder(r.Body).Decode(review)
	if err != nil || review.APIVersion != "authorization.k8s.io/v1" || review.Kind != "SelfSubjectAccessReview" {
		return fmt.Sprintf("%+v, %v", review, err)
	}
	right := review.Spec.ResourceAttributes
	asked := right.Verb + " " + right.Resource
	if right.Subresource != "" {
		asked += "/" + right.Subresource
	}
	review.Status.Allowed = asked != a.lacks
	return review
}

func (a *doctorAPI) node() any {
	address, port, _ := net.SplitHostPort(a.kubelet)
	return object{
		"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "node-1"},
		"status": object{
			"capacity": object{"memory": a.memory}, "images": a.images,
			"addresses":       []object{{"type": "InternalIP", "address": address}},
			"daemonEndpoints": object{"kubeletEndpoint": object{"Port": json.RawMessage(port)}},
		},
	}
}
