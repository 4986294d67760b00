package evict_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/pkg/evict"
)

// asked is a request as the server received it.
type asked struct {
	method, path string
	options      metav1.DeleteOptions
}

// deletions is a server with one prepared response for each method. The function returns the
// requests since its last call.
func deletions(t *testing.T, answers map[string]answer) (*evict.Evictor, func() []asked) {
	t.Helper()
	var mu sync.Mutex
	var all []asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := asked{method: r.Method, path: r.URL.Path}
		if body, err := io.ReadAll(r.Body); err != nil || len(body) > 0 && json.Unmarshal(body, &a.options) != nil {
			t.Errorf("the body %q: %v", body, err)
		}
		mu.Lock()
		all = append(all, a)
		mu.Unlock()
		answers[r.Method].write(w)
	}))
	t.Cleanup(server.Close)
	return evictorAt(t, server.URL), func() []asked {
		mu.Lock()
		defer mu.Unlock()
		defer func() { all = nil }()
		return all
	}
}

// Guards invariants 5, 7 and 8 for deletes: a delete names the UID and the grace period, and
// a dry run differs only in its dry-run option.
func TestDeleteNamesWhatAnEvictionNames(t *testing.T) {
	t.Parallel()
	evictor, requests := deletions(t, map[string]answer{http.MethodDelete: {code: 200, body: podLeaving}})
	grace := int64(5)
	request := evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1", GraceSeconds: &grace, Delete: true}
	for dryRun, want := range map[bool]evict.Outcome{false: evict.Deleted, true: evict.WouldDelete} {
		request.DryRun = dryRun
		if got := evictor.Evict(t.Context(), request); got.Outcome != want || got.Message != "" {
			t.Errorf("dry run %v: %+v, want %s", dryRun, got, want)
		}
		uid := types.UID("uid-1")
		sent := asked{http.MethodDelete, "/api/v1/namespaces/shop/pods/web-1", metav1.DeleteOptions{
			GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid},
		}}
		if dryRun {
			sent.options.DryRun = []string{"All"}
		}
		if diff := cmp.Diff([]asked{sent}, requests(), cmp.AllowUnexported(asked{}), ignoreTypeMeta()); diff != "" {
			t.Errorf("dry run %v: asked (-want +got):\n%s", dryRun, diff)
		}
	}
}

func ignoreTypeMeta() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".TypeMeta" }, cmp.Ignore())
}

func TestOutcomesOfADelete(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer answer
		read   answer
		want   evict.Outcome
	}{
		{"404 is Gone", answer{code: 404, body: status("404", `"message":"pods \"web-1\" not found","reason":"NotFound","details":{"name":"web-1","kind":"pods"}`)}, answer{}, evict.Gone},
		{"409 on the UID is Gone", answer{code: 409, body: status("409", uidConflict)}, answer{}, evict.Gone},
		{"403 is Denied", answer{code: 403, body: status("403", `"message":"pods \"web-1\" is forbidden: no","reason":"Forbidden","details":{"name":"web-1","kind":"pods"}`)}, answer{}, evict.Denied},
		{"429 is Throttled", answer{code: 429, header: map[string]string{"Retry-After": "1", "Content-Type": "text/plain"}, body: "Too many requests, please try again later."}, answer{}, evict.Throttled},
		{"a broken connection is Deleted when the pod is terminating", answer{}, answer{code: 200, body: podLeaving}, evict.Deleted},
		{"a broken connection is Unknown when the pod stays", answer{}, answer{code: 200, body: podOfUID}, evict.Unconfirmed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			evictor, _ := deletions(t, map[string]answer{http.MethodDelete: test.answer, http.MethodGet: test.read})
			got := evictor.Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1", Delete: true})
			if got.Outcome != test.want || got.NoRight {
				t.Errorf("%+v, want %s", got, test.want)
			}
		})
	}
}

// A missing right belongs to the account, not to the pod.
func TestDeleteWithoutTheRight(t *testing.T) {
	t.Parallel()
	const message = `pods \"web-1\" is forbidden: User \"system:serviceaccount:evictd:evictd\" cannot delete resource \"pods\" in API group \"\" in the namespace \"shop\"`
	evictor, _ := deletions(t, map[string]answer{http.MethodDelete: {code: 403, body: status("403", `"message":"`+message+`","reason":"Forbidden","details":{"name":"web-1","kind":"pods"}`)}})
	if got := evictor.Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1", Delete: true}); got.Outcome != evict.Denied || !got.NoRight {
		t.Errorf("%+v, want Denied for want of the right", got)
	}
}

// A terminating pod proves nothing where its grace period should have been shortened.
func TestRequestToShortenInDoubtIsResolvedByTheGracePeriod(t *testing.T) {
	t.Parallel()
	ten := int64(10)
	for left, want := range map[string]evict.Outcome{
		`,"deletionGracePeriodSeconds":3600`: evict.Unconfirmed,
		`,"deletionGracePeriodSeconds":10`:   evict.Evicted,
		`,"deletionGracePeriodSeconds":1`:    evict.Evicted, // the remaining grace period has been applied
	} {
		body := strings.Replace(podLeaving, `"deletionTimestamp"`, `"x":0`+left+`,"deletionTimestamp"`, 1)
		evictor, _ := deletions(t, map[string]answer{http.MethodGet: {code: 200, body: body}})
		got := evictor.Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1", GraceSeconds: &ten, Shorten: true})
		if got.Outcome != want {
			t.Errorf("%s: %+v, want %s", left, got, want)
		}
	}
}

func budgetBody(fields string) answer {
	return answer{code: 200, body: `{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"name":"web","namespace":"shop","generation":2},` + fields + `}`}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer answer
		want   evict.Budget
		fault  string // "" is none
	}{
		{"its figures", budgetBody(`"status":{"observedGeneration":2,"desiredHealthy":3,"currentHealthy":4}`), evict.Budget{Name: "web", Desired: 3, Healthy: 4}, ""},
		{"one that allows nothing, and whose figures are known", budgetBody(`"status":{"observedGeneration":2,"desiredHealthy":3,"currentHealthy":3,"conditions":[{"type":"DisruptionAllowed","status":"False","reason":"InsufficientPods"}]}`), evict.Budget{Name: "web", Desired: 3, Healthy: 3}, ""},
		{"a status that is behind", budgetBody(`"status":{"observedGeneration":1,"desiredHealthy":3,"currentHealthy":4}`), evict.Budget{}, "its status is behind its spec"},
		{"no status yet", budgetBody(`"status":{}`), evict.Budget{}, "its status is behind its spec"},
		{"figures that cannot be trusted", budgetBody(`"status":{"observedGeneration":2,"desiredHealthy":3,"currentHealthy":4,"conditions":[{"type":"DisruptionAllowed","status":"False","reason":"SyncFailed","message":"found no controllers"}]}`), evict.Budget{}, "its status could not be computed: found no controllers"},
		{"no such budget", answer{code: 404, body: status("404", `"message":"poddisruptionbudgets.policy \"web\" not found","reason":"NotFound"`)}, evict.Budget{}, "not found"},
		{"no right", answer{code: 403, body: status("403", `"message":"poddisruptionbudgets.policy \"web\" is forbidden","reason":"Forbidden"`)}, evict.Budget{}, "is forbidden"},
		{"no answer", answer{}, evict.Budget{}, "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			evictor, requests := deletions(t, map[string]answer{http.MethodGet: test.answer})
			got, err := evictor.Budget(t.Context(), "shop", "web")
			if got != test.want || (err == nil) != (test.fault == "") {
				t.Fatalf("%+v, %v; want %+v", got, err, test.want)
			}
			if err != nil && (!strings.Contains(err.Error(), test.fault) || !strings.HasPrefix(err.Error(), "reading PodDisruptionBudget shop/web: ")) {
				t.Errorf("%v, want %q", err, test.fault)
			}
			if path := requests()[0].path; path != "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web" {
				t.Errorf("requested %s", path)
			}
		})
	}
}
