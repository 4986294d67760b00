package apiclient

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/pkg/evict"
)

// failures counts the failures that the clients report.
type failures struct {
	mu    sync.Mutex
	count map[string]int
}

func (f *failures) tell(request string, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count[fmt.Sprint(request, " ", status)]++
}

// ask sends one request of each kind.
func ask(ctx context.Context, c *Clients) {
	evict.New(c.Evicting, time.Now).Evict(ctx, evict.Request{Namespace: "shop", Name: "web", UID: "u"})
	_, _ = c.Watching.Pods().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=node-1"})
	_, _ = c.Watching.Pods().Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=node-1"})
	_, _ = EventSink{c.Telling}.Create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}) //nolint:contextcheck // as client-go's queue of Events, which passes none
	_, _ = c.Telling.Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	_, _ = c.Telling.Nodes().Patch(ctx, "node-1", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
}

// counted sends requests to a server that returns the code, and returns the reported
// failures.
func counted(ctx context.Context, t *testing.T, code int) map[string]int {
	t.Helper()
	server := newWire(t, status(code))
	if code == 0 {
		server.Close() // no server listens
	}
	f := &failures{count: map[string]int{}}
	c, err := New(&rest.Config{Host: server.URL, BearerToken: "a-token"}, f.tell)
	if err != nil {
		t.Fatal(err)
	}
	ask(ctx, c)
	return f.count
}

func TestFailedRequestsAreCounted(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 200, 401, 403, 404, 429, 500, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			got := counted(t.Context(), t, code)
			want := map[string]int{}
			for _, request := range record.APIRequests() {
				want[fmt.Sprint(request, " ", code)] = 1
			}
			switch code {
			case 200:
				clear(want) // success is no failure
			case 0, 404, 503: // the pod is read again; a 404 may come from anything
				want[fmt.Sprint("Get ", code)]++
			case 401: // a request is repeated with a fresh token
				want["Eviction 401"]++
				want["Get 401"] += 2
			case 500:
				want["Get 500"]++
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A request that is canceled at shutdown is not a failure of the API server.
func TestRequestsThatAreGivenUpAreNoFailures(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := newWire(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	f := &failures{count: map[string]int{}}
	c, err := New(&rest.Config{Host: server.URL, BearerToken: "a-token"}, f.tell)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Telling.Nodes().Get(ctx, "node-1", metav1.GetOptions{}); err == nil {
		t.Fatal("an answer came")
	}
	if len(f.count) != 0 {
		t.Errorf("told of %v", f.count)
	}
}

// The names of namespaces and pods do not affect the kind of a request.
func TestKindOfARequest(t *testing.T) {
	t.Parallel()
	const core = "https://api/api/v1/"
	for _, test := range []struct{ method, url, want string }{
		{"POST", core + "namespaces/shop/events", record.RequestEvent},
		{"PATCH", "https://proxy/k8s/clusters/c/apis/events.k8s.io/v1/namespaces/shop/events/web.1", record.RequestEvent},
		{"POST", core + "namespaces/events/pods/web/eviction", record.RequestEviction},
		{"POST", core + "namespaces/namespaces/pods/web/eviction", record.RequestEviction},
		{"GET", core + "namespaces/events-api/pods/web", record.RequestGet},
		{"GET", core + "namespaces/shop/pods/eviction", record.RequestGet},
		{"GET", core + "pods?fieldSelector=spec.nodeName%3Dnode-1", record.RequestList},
		{"GET", core + "pods?watch=true", record.RequestWatch},
		{"GET", core + "nodes/events", record.RequestGet},
		{"PUT", "https://api/apis/coordination.k8s.io/v1/namespaces/events/leases/x", record.RequestOther},
	} {
		if got := kindOf(httptest.NewRequest(test.method, test.url, nil)); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.method, test.url, got, test.want)
		}
	}
}
