package evict_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/pkg/evict"
)

// Guards invariants 5, 7 and 8 for deletes: a delete names the UID and the grace period, and
// a dry run differs only in its dry-run option.
func TestDeleteNamesWhatAnEvictionNames(t *testing.T) {
	t.Parallel()
	grace, uid := int64(5), types.UID("uid-1")
	for dryRun, want := range map[bool]evict.Outcome{false: evict.Deleted, true: evict.WouldDelete} {
		s := newServer(t, answer{code: 200, body: podLeaving}, answer{})
		request := evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1", GraceSeconds: &grace, Delete: true, DryRun: dryRun}
		if got := s.evictor(t).Evict(t.Context(), request); got.Outcome != want || got.Message != "" {
			t.Errorf("dry run %v: %+v, want %s", dryRun, got, want)
		}
		options := metav1.DeleteOptions{
			TypeMeta:           metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
			GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid},
		}
		if dryRun {
			options.DryRun = []string{"All"}
		}
		var sent metav1.DeleteOptions
		if len(s.asked) != 1 || s.asked[0].method != http.MethodDelete || s.asked[0].path != "/api/v1/namespaces/shop/pods/web-1" || json.Unmarshal(s.asked[0].body, &sent) != nil {
			t.Fatalf("dry run %v: asked %+v", dryRun, s.asked)
		}
		if diff := cmp.Diff(options, sent); diff != "" {
			t.Errorf("dry run %v: options (-want +got):\n%s", dryRun, diff)
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
		"no such budget":                {failed(404, `"message":"poddisruptionbudgets.policy \"web\" not found","reason":"NotFound"`), evict.Budget{}, "not found"},
		"no right":                      {failed(403, `"message":"poddisruptionbudgets.policy \"web\" is forbidden","reason":"Forbidden"`), evict.Budget{}, "is forbidden"},
		"no answer":                     {answer{}, evict.Budget{}, "EOF"},
	} {
		s := newServer(t, answer{}, test.answer)
		got, err := s.evictor(t).Budget(t.Context(), "shop", "web")
		if got != test.want || (err == nil) != (test.fault == "") {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
		if err != nil && (!strings.Contains(err.Error(), test.fault) || !strings.HasPrefix(err.Error(), "reading PodDisruptionBudget shop/web: ")) {
			t.Errorf("%s: %v, want %q", name, err, test.fault)
		}
		if path := s.asked[0].path; path != "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web" {
			t.Errorf("%s: requested %s", name, path)
		}
	}
}
