package apiclient

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/watchlist"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/pkg/evict"
)

// api is what evictd uses of a client: its own, or the clientset.
type api struct {
	core   rest.Interface
	pods   nodepods.Client[*corev1.PodList]
	nodes  taint.Client
	events record.EventSink
}

// ours is the product's client, clientsets is that of client-go.
func ours(t *testing.T, config *rest.Config) api {
	t.Helper()
	c, err := newClient(rest.CopyConfig(config))
	must.Succeed(t, err)
	return api{c, c.Pods(), c.Nodes(), EventSink{c}}
}

func clientsets(t *testing.T, config *rest.Config) api {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	must.Succeed(t, err)
	return api{
		c.CoreV1().RESTClient(), c.CoreV1().Pods(metav1.NamespaceAll), c.CoreV1().Nodes(),
		&typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events(metav1.NamespaceAll)},
	}
}

// requests are what evictd sends, each with what it got for it.
func (a api) requests(ctx context.Context) map[string]func() (any, error) {
	seconds, events, uid := int64(300), true, types.UID("u")
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web.1"}, Reason: "EvictionRequested", Count: 2,
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web", UID: uid},
	}
	request := evict.Request{Namespace: "shop", Name: "web", UID: "u", DryRun: true}
	evictor := evict.New(a.core, func() time.Time { return time.Time{} })
	deleting := request
	deleting.Delete = true
	dryRun := []string{metav1.DryRunAll}
	return map[string]func() (any, error){
		"list": func() (any, error) { return a.pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n"}) },
		"watch": func() (any, error) {
			w, err := a.pods.Watch(ctx, metav1.ListOptions{
				FieldSelector: "spec.nodeName=n", TimeoutSeconds: &seconds, SendInitialEvents: &events, AllowWatchBookmarks: true,
			})
			return all(w), err
		},
		"get a node": func() (any, error) { return a.nodes.Get(ctx, "n", metav1.GetOptions{}) },
		"patch a node": func() (any, error) {
			return a.nodes.Patch(ctx, "n", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{DryRun: dryRun})
		},
		"create an Event":               func() (any, error) { return a.events.Create(event) },
		"create an Event on no object":  func() (any, error) { return a.events.Create(&corev1.Event{}) },
		"update an Event":               func() (any, error) { return a.events.Update(event) },
		"patch an Event":                func() (any, error) { return a.events.Patch(event, []byte(`{"count":2}`)) },
		"evict":                         func() (any, error) { return evictor.Evict(ctx, request), nil },
		"delete":                        func() (any, error) { return evictor.Evict(ctx, deleting), nil },
		"read the pod of an eviction":   func() (any, error) { return evictor.Look(ctx, request) },
		"read the budget of an evicted": func() (any, error) { return evictor.Budget(ctx, "shop", "web") },
	}
}

// all returns the events of a watch, nil where there is none.
func all(w watch.Interface) []watch.Event {
	if w == nil {
		return nil
	}
	defer w.Stop()
	var events []watch.Event
	for event := range w.ResultChan() {
		events = append(events, event)
	}
	return events
}

// Our client sends the same bytes as client-go's clientset, and understands the answers as it does.
func TestSameRequestsAsTheClientset(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"objects": objects(t), "not found": status(404), "conflict": status(409), "too many": status(429), "a fault": status(500),
		"no status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
	} {
		for agent, config := range map[string]rest.Config{
			"an agent of its own": {UserAgent: "evictd/v1"},
			"JSON":                {UserAgent: "evictd/v1", ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		} {
			t.Run(name+", "+agent, func(t *testing.T) {
				t.Parallel()
				server := newWire(t, answer)
				config.Host, config.QPS, config.BearerToken = server.URL, unlimited, "a-token"
				compare(t, server, ours(t, &config), clientsets(t, &config))
			})
		}
	}
}

func compare(t *testing.T, server *wire, mine, theirs api) {
	t.Helper()
	reference := theirs.requests(t.Context())
	for name, send := range mine.requests(t.Context()) {
		got, gotErr := send()
		sent := server.take()
		want, wantErr := reference[name]()
		if diff := cmp.Diff(server.take(), sent); diff != "" || len(sent) == 0 {
			t.Errorf("%s: sent (-clientset +ours):\n%s", name, diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: got (-clientset +ours):\n%s", name, diff)
		}
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || apierrors.ReasonForError(gotErr) != apierrors.ReasonForError(wantErr) {
			t.Errorf("%s: error %v, the clientset's %v", name, gotErr, wantErr)
		}
	}
}

// Each use has its own limits: a watch and an eviction end by their contexts, all else after readTimeout, and
// evictions wait for no rate, the others for client-go's.
func TestLimitsOfTheClients(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	c, err := New(config)
	must.Succeed(t, err)
	rate := clientsets(t, config).core.GetRateLimiter().QPS()
	for name, test := range map[string]struct {
		client  *Client
		timeout time.Duration
		rate    float32 // 0 is none
	}{"watching": {c.Watching, 0, rate}, "evicting": {c.Evicting, 0, 0}, "telling": {c.Telling, readTimeout, rate}} {
		core, is := test.client.Interface.(*rest.RESTClient)
		if !is || core.Client.Timeout != test.timeout {
			t.Fatalf("%s: %T, timeout %v", name, test.client.Interface, core.Client.Timeout)
		}
		if limit := core.GetRateLimiter(); (limit != nil) != (test.rate > 0) || limit != nil && limit.QPS() != test.rate {
			t.Errorf("%s: rate limit %v, want %v", name, limit, test.rate)
		}
	}
}

// The reflector streams the first list where the client is not known to be unable to.
func TestFirstListMayBeStreamed(t *testing.T) {
	t.Parallel()
	if watchlist.DoesClientNotSupportWatchListSemantics(ours(t, &rest.Config{Host: "http://127.0.0.1:1"}).pods) {
		t.Error("ours counts as one that cannot")
	}
}
