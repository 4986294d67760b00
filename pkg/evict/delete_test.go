package evict_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/pkg/evict"
)

// Guards invariants 5, 7 and 8: an eviction and a delete name the UID of the judged pod and the grace period, and a
// dry run differs only in its dry-run option.
func TestInvariant05And08RequestsNameTheJudgedPod(t *testing.T) {
	t.Parallel()
	grace, uid := int64(5), types.UID("uid-1")
	const pod = "/api/v1/namespaces/shop/pods/web-1"
	for _, test := range []struct {
		deletes, dryRun bool
		method, path    string
		want            evict.Outcome
	}{
		{false, false, http.MethodPost, pod + "/eviction", evict.Evicted},
		{false, true, http.MethodPost, pod + "/eviction", evict.WouldEvict},
		{true, false, http.MethodDelete, pod, evict.Deleted},
		{true, true, http.MethodDelete, pod, evict.WouldDelete},
	} {
		s := newServer(t, answer{code: 200, body: podLeaving}, answer{})
		request := evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1", GraceSeconds: &grace, Delete: test.deletes, DryRun: test.dryRun}
		if got := s.evictor().Evict(t.Context(), request); got.Outcome != test.want || got.Message != "" {
			t.Errorf("%+v: %+v", test, got)
		}
		found := s.asked[test.method]
		if len(found) != 1 || s.reads() != 0 || found[0].URL.Path != test.path {
			t.Fatalf("%+v: asked %+v, and %d reads", test, found, s.reads())
		}
		want := policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid}}}
		if test.dryRun {
			want.DeleteOptions.DryRun = []string{"All"}
		}
		sent := policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{}}
		var body any = &sent
		if test.deletes {
			body = sent.DeleteOptions
			want.DeleteOptions.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
		} else {
			want.ObjectMeta = metav1.ObjectMeta{Name: "web-1", Namespace: "shop"}
			want.TypeMeta = metav1.TypeMeta{Kind: "Eviction", APIVersion: "policy/v1"}
		}
		if err := json.NewDecoder(found[0].Body).Decode(body); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("%+v: sent (-want +got):\n%s", test, diff)
		}
	}
}

// A missing right belongs to the account, not to the pod.
func TestOutcomesOfADelete(t *testing.T) {
	t.Parallel()
	ofPod := func(code int, reason, message string) answer {
		return failed(code, `"message":"pods \"web-1\" `+message+`","reason":"`+reason+`","details":{"name":"web-1","kind":"pods"}`)
	}
	const noRight = `is forbidden: User \"system:serviceaccount:evictd:evictd\" cannot delete resource \"pods\" in API group \"\" in the namespace \"shop\"`
	outcomes{
		"404 is Gone":            {ofPod(404, "NotFound", "not found"), answer{}, is(evict.Gone)},
		"409 on the UID is Gone": {failed(409, uidConflict), answer{}, is(evict.Gone)},
		"403 is Denied":          {ofPod(403, "Forbidden", "is forbidden: no"), answer{}, is(evict.Denied)},
		"403 without the right":  {ofPod(403, "Forbidden", noRight), answer{}, evict.Result{Outcome: evict.Denied, NoRight: true}},
		"429 is Throttled":       {tooMany(), answer{}, evict.Result{Outcome: evict.Throttled, RetryAfter: time.Second}},
		"a broken connection is Deleted when the pod is terminating": {answer{}, answer{code: 200, body: podLeaving}, silent(evict.Deleted)},
		"a broken connection is Unknown when the pod stays":          {answer{}, answer{code: 200, body: podOfUID}, silent(evict.Unconfirmed)},
	}.check(t, evict.Request{Delete: true})
}

// A terminating pod proves nothing where its grace period should have been shortened.
func TestRequestToShortenInDoubtIsResolvedByTheGracePeriod(t *testing.T) {
	t.Parallel()
	ten := int64(10)
	left := func(fields string) answer {
		return answer{code: 200, body: strings.Replace(podLeaving, `"deletionTimestamp"`, `"deletionGracePeriodSeconds":`+fields+`,"deletionTimestamp"`, 1)}
	}
	outcomes{
		"as before":                             {answer{}, left("3600"), silent(evict.Unconfirmed)},
		"as requested":                          {answer{}, left("10"), silent(evict.Evicted)},
		"the remaining period has been applied": {answer{}, left("1"), silent(evict.Evicted)},
	}.check(t, evict.Request{GraceSeconds: &ten, Shorten: true})
}

func budgetBody(fields string) answer {
	return answer{code: 200, body: `{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"name":"web","namespace":"shop","generation":2},` + fields + `}`}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	disallowed := func(seen, healthy, why string) answer {
		return budgetBody(`"status":{"observedGeneration":` + seen + `,"desiredHealthy":3,"currentHealthy":` + healthy +
			`,"conditions":[{"type":"DisruptionAllowed","status":"False","reason":` + why + `}]}`)
	}
	const behind = "its status is behind its spec"
	for name, test := range map[string]struct {
		answer answer
		want   evict.Budget
		fault  string // "" is none
	}{
		"its figures":                   {budgetBody(`"status":{"observedGeneration":2,"desiredHealthy":3,"currentHealthy":4}`), evict.Budget{Name: "web", Desired: 3, Healthy: 4}, ""},
		"one that allows nothing":       {disallowed("2", "3", `"InsufficientPods"`), evict.Budget{Name: "web", Desired: 3, Healthy: 3}, ""},
		"a status that is behind":       {disallowed("1", "4", `"InsufficientPods"`), evict.Budget{}, behind},
		"no status yet":                 {budgetBody(`"status":{}`), evict.Budget{}, behind},
		"figures that cannot be relied": {disallowed("2", "4", `"SyncFailed","message":"found no controllers"`), evict.Budget{}, "its status could not be computed: found no controllers"},
		"no such budget": {failed(404, `"message":"poddisruptionbudgets.policy \"web\" not found","reason":"NotFound",`+
			`"details":{"name":"web","group":"policy","kind":"poddisruptionbudgets"}`), evict.Budget{}, ""},
		"something else that is not there": {failed(404, `"message":"poddisruptionbudgets.policy \"web\" not found","reason":"NotFound"`), evict.Budget{}, "not found"},
		"no right":                         {failed(403, `"message":"poddisruptionbudgets.policy \"web\" is forbidden","reason":"Forbidden"`), evict.Budget{}, "is forbidden"},
		"no answer":                        {answer{}, evict.Budget{}, "EOF"},
	} {
		s := newServer(t, answer{}, test.answer)
		got, err := s.evictor().Budget(t.Context(), "shop", "web")
		if got != test.want || (err == nil) != (test.fault == "") {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
		if err != nil && (!strings.Contains(err.Error(), test.fault) || !strings.HasPrefix(err.Error(), "reading PodDisruptionBudget shop/web: ")) {
			t.Errorf("%s: %v, want %q", name, err, test.fault)
		}
		if path := s.asked[http.MethodGet][0].URL.Path; path != "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web" {
			t.Errorf("%s: requested %s", name, path)
		}
	}
}
