package evictdtest

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request is an eviction or delete request, as the proxy saw it.
type Request struct {
	Method, Pod string
	Options     metav1.DeleteOptions
}

// Recorder has the eviction and delete requests for a namespace's pods that a proxy saw.
type Recorder struct {
	mu  sync.Mutex
	all []Request
}

// Record records the requests of evictd from now on.
func Record(a *Agent) *Recorder {
	r := &Recorder{}
	a.Proxy.Instead(func(_ http.ResponseWriter, request *http.Request) bool {
		pod, isPod := strings.CutPrefix(request.URL.Path, "/api/v1/namespaces/"+a.Namespace+"/pods/")
		if isPod && (request.Method == http.MethodDelete || IsEviction(request)) {
			r.add(a.T, request, strings.TrimSuffix(pod, "/eviction"))
		}
		return false
	})
	return r
}

func (r *Recorder) add(tb testing.TB, request *http.Request, pod string) {
	tb.Helper()
	const triesPolicies = "evictd-doctor-no-pod" // the UID in the dry runs that the policies must refuse
	body, err := io.ReadAll(request.Body)
	if err != nil {
		tb.Error(err)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	seen := Request{Method: request.Method, Pod: pod}
	switch object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, runtime.Object(nil)); sent := object.(type) {
	case *policyv1.Eviction:
		seen.Options = *sent.DeleteOptions
	case *metav1.DeleteOptions:
		seen.Options = *sent
	default:
		tb.Errorf("%s %s: %T, %v", request.Method, request.URL.Path, object, err)
	}
	if of := seen.Options.Preconditions; of != nil && of.UID != nil && *of.UID == triesPolicies {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, seen)
}

// All returns the requests so far.
func (r *Recorder) All() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Real returns those that were no dry runs.
func (r *Recorder) Real() []Request {
	return slices.DeleteFunc(r.All(), func(one Request) bool { return len(one.Options.DryRun) > 0 })
}
