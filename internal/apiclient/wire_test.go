package apiclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// wire is a server that answers each request as it is told, and keeps it as text.
type wire struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newWire(t *testing.T, answer http.HandlerFunc) *wire {
	t.Helper()
	s := &wire{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.seen = append(s.seen, fmt.Sprintf("%s %s %v %q", r.Method, r.URL, r.Header, body))
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *wire) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// status answers with an error of the API server.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"m","code":%d}`,
			map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 429: metav1.StatusReasonTooManyRequests}[code], code)
	}
}

// objects answers with an object of the kind that the request is about, in the encoding that the
// client prefers.
func objects(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		encoding, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
		encoding, _, _ = strings.Cut(encoding, ";")
		info, known := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), encoding)
		if !known {
			t.Errorf("%s %s accepts %q", r.Method, r.URL, r.Header.Get("Accept"))
			return
		}
		w.Header().Set("Content-Type", encoding)
		object := objectFor(r)
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			t.Error(err)
			return
		}
		encoder := scheme.Codecs.EncoderForVersion(info.Serializer, kinds[0].GroupVersion())
		if !r.URL.Query().Has("watch") {
			err = encoder.Encode(object, w)
		} else {
			var raw bytes.Buffer
			if err = encoder.Encode(object, &raw); err == nil {
				frames := info.StreamSerializer.NewFrameWriter(w)
				for _, kind := range []watch.EventType{watch.Added, watch.Bookmark, watch.Deleted} {
					event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw.Bytes()}}
					err = errors.Join(err, info.StreamSerializer.Encode(event, frames))
				}
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func objectFor(r *http.Request) runtime.Object {
	named := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "9"}
	pod := corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	switch path := r.URL.Path; {
	case r.URL.Query().Has("watch"):
		return &pod
	case path == "/api/v1/pods":
		return &corev1.PodList{Items: []corev1.Pod{pod}}
	case path == "/api/v1/nodes/n":
		return &corev1.Node{ObjectMeta: named, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "b"}}}
	case strings.Contains(path, "/events"):
		return &corev1.Event{ObjectMeta: named, Count: 3}
	case strings.Contains(path, "/poddisruptionbudgets/"):
		return &policyv1.PodDisruptionBudget{ObjectMeta: named, Status: policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 2}}
	case strings.Contains(path, "/pods/") && r.Method == http.MethodGet:
		return &pod
	default:
		return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
	}
}
