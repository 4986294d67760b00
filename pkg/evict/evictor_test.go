package evict_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
)

// server answers evictions and reads of one pod with prepared texts and records the
// requests.
type server struct {
	*httptest.Server
	mu        sync.Mutex
	evictions []policyv1.Eviction
	reads     int
}

// answer is one prepared response; a zero code closes the connection.
type answer struct {
	code   int
	header map[string]string
	body   string
}

func (a answer) write(w http.ResponseWriter) {
	if a.code == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(a.code)
	_, _ = w.Write([]byte(a.body)) // the test sees what is missing
}

func newServer(t *testing.T, toEviction, toRead answer) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method == http.MethodGet {
			s.reads++
			if accepted := r.Header.Get("Accept"); !strings.Contains(accepted, "as=PartialObjectMetadata") {
				t.Errorf("the whole pod was requested: %q", accepted)
			}
			toRead.write(w)
			return
		}
		var e policyv1.Eviction
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Errorf("decoding the eviction: %v", err)
		}
		s.evictions = append(s.evictions, e)
		toEviction.write(w)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) evictor(t *testing.T) *evict.Evictor {
	t.Helper()
	return evictorAt(t, s.URL)
}

func evictorAt(t *testing.T, address string) *evict.Evictor {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: address})
	if err != nil {
		t.Fatal(err)
	}
	return evict.New(client.CoreV1().RESTClient(), time.Now)
}

func status(code, fields string) string {
	return `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":` + code + `,` + fields + `}`
}

// Texts as kube-apiserver 1.37 sends them.
const (
	budgetMessage = `"message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests"`
	budgetBlocked = `"details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 2 healthy pods and has 2 currently"}]}`
	budgetPending = `"details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web is still being processed by the server."}]}`
	uidConflict   = `"message":"Operation cannot be fulfilled on Pod \"web-1\": the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated","reason":"Conflict","details":{"name":"web-1","kind":"Pod"}`
	podOfUID      = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"uid-1"}}`
	podLeaving    = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"uid-1","deletionTimestamp":"2026-03-01T12:00:00Z"}}`
	podReplaced   = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"uid-2"}}`
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		eviction answer
		read     answer
		want     evict.Result // Message, Sent and Took are not compared
		reads    int
	}{
		{
			name:     "201 is Evicted",
			eviction: answer{code: 201, body: `{"kind":"Status","apiVersion":"v1","status":"Success","code":201}`},
			want:     evict.Result{Outcome: evict.Evicted},
		},
		{
			name:     "404 of the pod is Gone",
			eviction: answer{code: 404, body: status("404", `"message":"pods \"web-1\" not found","reason":"NotFound","details":{"name":"web-1","kind":"pods"}`)},
			want:     evict.Result{Outcome: evict.Gone},
		},
		{
			name:     "404 of the budget is BudgetPending",
			eviction: answer{code: 404, body: status("404", `"message":"poddisruptionbudgets.policy \"web\" not found","reason":"NotFound","details":{"name":"web","group":"policy","kind":"poddisruptionbudgets"}`)},
			want:     evict.Result{Outcome: evict.BudgetPending},
		},
		{
			name:     "409 on the UID is Gone",
			eviction: answer{code: 409, body: status("409", uidConflict)},
			want:     evict.Result{Outcome: evict.Gone},
		},
		{
			name:     "409 on the budget is BudgetPending",
			eviction: answer{code: 409, body: status("409", `"message":"Operation cannot be fulfilled on poddisruptionbudgets.policy \"web\": the object has been modified","reason":"Conflict","details":{"name":"web","group":"policy","kind":"poddisruptionbudgets"}`)},
			want:     evict.Result{Outcome: evict.BudgetPending},
		},
		{
			name:     "429 of a budget without delay is BlockedByBudget",
			eviction: answer{code: 429, body: status("429", budgetMessage+","+budgetBlocked)},
			want:     evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"},
		},
		{
			name:     "429 of a budget with a delay is BudgetPending and is not retried inside",
			eviction: answer{code: 429, header: map[string]string{"Retry-After": "10"}, body: status("429", budgetMessage+","+budgetPending)},
			want:     evict.Result{Outcome: evict.BudgetPending, Budget: "web", RetryAfter: 10 * time.Second},
		},
		{
			name:     "429 of priority and fairness is Throttled",
			eviction: answer{code: 429, header: map[string]string{"Retry-After": "1", "Content-Type": "text/plain"}, body: "Too many requests, please try again later."},
			want:     evict.Result{Outcome: evict.Throttled, RetryAfter: time.Second},
		},
		{
			name:     "403 of RBAC is Denied",
			eviction: answer{code: 403, body: status("403", `"message":"pods \"web-1\" is forbidden","reason":"Forbidden","details":{"name":"web-1","kind":"pods"}`)},
			want:     evict.Result{Outcome: evict.Denied},
		},
		{
			name:     "403 of a negative budget is BlockedByBudget",
			eviction: answer{code: 403, body: status("403", `"message":"pdb disruptions allowed is negative","reason":"Forbidden","details":{"name":"web","group":"policy","kind":"poddisruptionbudgets"}`)},
			want:     evict.Result{Outcome: evict.BlockedByBudget},
		},
		{
			name:     "403 of an overfull budget is BlockedByBudget, also with the cause that 1.37 adds",
			eviction: answer{code: 403, body: status("403", `"message":"poddisruptionbudget.policy \"web\" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller","reason":"Forbidden","details":{"name":"web","group":"policy","kind":"poddisruptionbudget","causes":[{"reason":"DisruptionBudget","message":"The disruption budget web does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller"}]}`)},
			want:     evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"},
		},
		{
			name:     "403 of a policy is Denied, with its message",
			eviction: answer{code: 403, body: status("403", `"message":"pods \"web-1\" is forbidden: ValidatingAdmissionPolicy 'evictd-evicts-on-own-node' denied request: evictd on node \"a\" may evict only pods of that node","reason":"Forbidden","details":{"name":"web-1","kind":"pods","causes":[{"message":"ValidatingAdmissionPolicy 'evictd-evicts-on-own-node' denied request: evictd on node \"a\" may evict only pods of that node"}]}`)},
			want:     evict.Result{Outcome: evict.Denied},
		},
		{
			name:     "422 of a policy that gives no reason is Denied",
			eviction: answer{code: 422, body: status("422", `"message":"ValidatingAdmissionPolicy 'own-node' denied request","reason":"Invalid"`)},
			want:     evict.Result{Outcome: evict.Denied},
		},
		{
			name:     "500 of two budgets is Misconfigured",
			eviction: answer{code: 500, body: status("500", `"message":"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."`)},
			want:     evict.Result{Outcome: evict.Misconfigured},
		},
		{
			name:     "409 on the budget's UID is BudgetPending",
			eviction: answer{code: 409, body: status("409", `"message":"Operation cannot be fulfilled on poddisruptionbudgets.policy \"web\": StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition failed: UID in precondition: a, UID in object meta: b","reason":"Conflict","details":{"name":"web","group":"policy","kind":"poddisruptionbudgets"}`)},
			want:     evict.Result{Outcome: evict.BudgetPending},
		},
		{
			name:     "409 on neither a pod's UID nor a budget is Unknown",
			eviction: answer{code: 409, body: status("409", `"message":"the UID is odd","reason":"Conflict","details":{"name":"web","kind":"quotas"}`)},
			read:     answer{code: 200, body: podOfUID},
			want:     evict.Result{Outcome: evict.Unconfirmed, Stays: true}, reads: 1,
		},
		{
			name:     "500 otherwise is Unknown when the pod is still there",
			eviction: answer{code: 500, body: status("500", `"message":"etcdserver: no space"`)},
			read:     answer{code: 200, body: podOfUID},
			want:     evict.Result{Outcome: evict.Unconfirmed, Stays: true}, reads: 1,
		},
		{
			name:     "500 of an etcd that has not answered may be carried out late",
			eviction: answer{code: 500, body: status("500", `"message":"etcdserver: request timed out"`)},
			read:     answer{code: 200, body: podOfUID},
			want:     evict.Result{Outcome: evict.Unconfirmed, Stays: true, Pending: true}, reads: 1,
		},
		{
			name:     "504 may be carried out late",
			eviction: answer{code: 504, body: status("504", `"message":"Timeout: request did not complete within requested timeout","reason":"Timeout"`)},
			read:     answer{code: 200, body: podOfUID},
			want:     evict.Result{Outcome: evict.Unconfirmed, Stays: true, Pending: true}, reads: 1,
		},
		{
			name:     "a broken connection is Evicted when the pod is terminating",
			eviction: answer{}, read: answer{code: 200, body: podLeaving},
			want: evict.Result{Outcome: evict.Evicted, NoResponse: true, Pending: true}, reads: 1,
		},
		{
			name:     "a broken connection is Evicted when the pod has another UID",
			eviction: answer{}, read: answer{code: 200, body: podReplaced},
			want: evict.Result{Outcome: evict.Evicted, NoResponse: true, Pending: true}, reads: 1,
		},
		{
			name:     "a broken connection is Evicted when the pod is not found",
			eviction: answer{},
			read:     answer{code: 404, body: status("404", `"message":"pods \"web-1\" not found","reason":"NotFound","details":{"name":"web-1","kind":"pods"}`)},
			want:     evict.Result{Outcome: evict.Evicted, NoResponse: true, Pending: true}, reads: 1,
		},
		{
			name:     "a refusal that proves nothing is Gone when the pod is not found",
			eviction: answer{code: 409, body: status("409", `"message":"odd","reason":"Conflict"`)},
			read:     answer{code: 404, body: status("404", `"message":"pods \"web-1\" not found","reason":"NotFound","details":{"name":"web-1","kind":"pods"}`)},
			want:     evict.Result{Outcome: evict.Gone}, reads: 1,
		},
		{
			name:     "a 404 that is not the pods' storage proves nothing",
			eviction: answer{}, read: answer{code: 404, body: "404 page not found"},
			want: evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true}, reads: 1,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, test.eviction, test.read)
			got := s.evictor(t).Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
			if got.Sent.IsZero() || (got.Message == "") != (test.want.Outcome == evict.Evicted && test.reads == 0) {
				t.Errorf("sent %v, message %q", got.Sent, got.Message)
			}
			got.Message, got.Sent, got.Took = "", time.Time{}, 0
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if len(s.evictions) != 1 || s.reads != test.reads {
				t.Errorf("%d evictions and %d reads, want 1 and %d", len(s.evictions), s.reads, test.reads)
			}
		})
	}
}

// Admission responds before any budget, with any code that its author chose, and may write
// text that otherwise only a budget writes.
func TestAdmissionsDenialHasAnyCode(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		`admission webhook \"evictions.example.com\" denied the request: failed calling webhook \"x\"`,
		`admission webhook \"evictions.example.com\" denied the request without explanation`,
		`pods \"web-1\" is forbidden: ValidatingAdmissionPolicy 'office' with binding 'hours' denied request: not now`,
	} {
		for _, code := range []int{400, 401, 403, 404, 409, 413, 422, 500, 503} {
			fields := `"message":"` + message + `",` + budgetPending
			s := newServer(t, answer{code: code, body: status(strconv.Itoa(code), fields)}, answer{})
			got := s.evictor(t).Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
			if got.Outcome != evict.Denied || got.Budget != "" || got.NoRight || s.reads != 0 {
				t.Errorf("%d %s: %s, budget %q, no right %v, after %d reads", code, message, got.Outcome, got.Budget, got.NoRight, s.reads)
			}
		}
	}
}

// KubeVirt's webhook begins a live migration and answers 429; the body is that of its admitter.
func TestFaultAMigrationThatHasBegunIsEvacuating(t *testing.T) {
	t.Parallel()
	s := newServer(t, answer{code: 429, body: status("429", `"reason":"TooManyRequests",`+
		`"message":"admission webhook \"virt-launcher-eviction-interceptor.kubevirt.io\" denied the request: Eviction triggered evacuation of VMI \"shop/vm\""`)}, answer{})
	got := s.evictor(t).Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
	if got.Outcome != evict.Evacuating || got.Next() != evict.Stop || got.Outcome.Accepted() || s.reads != 0 {
		t.Errorf("%+v after %d reads", got, s.reads)
	}
}

// A webhook that is restarted keeps its own pods for a moment, and no other.
func TestFaultAWebhookThatCannotBeReachedIsTransient(t *testing.T) {
	t.Parallel()
	s := newServer(t, answer{code: 500, body: status("500", `"reason":"InternalError",`+
		`"message":"Internal error occurred: failed calling webhook \"x\": failed to call webhook: connection refused"`)}, answer{})
	got := s.evictor(t).Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
	if got.Outcome != evict.Throttled || !got.PodAlone || got.Next() != evict.NextCandidate || s.reads != 0 {
		t.Errorf("%+v after %d reads", got, s.reads)
	}
}

// A proxy's error page proves nothing: not a budget, not a missing pod, not a missing right.
func TestPageOfAProxyIsUnknown(t *testing.T) {
	t.Parallel()
	for _, code := range []int{400, 403, 404, 409, 422, 500, 502, 503} {
		for _, page := range []string{"<html>no</html>", `no UID, cannot create resource "pods/eviction"`, ` denied request: no`} {
			given := answer{code: code, header: map[string]string{"Content-Type": "text/html"}, body: page}
			s := newServer(t, given, answer{code: 200, body: podOfUID})
			got := s.evictor(t).Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
			if got.Outcome != evict.Unconfirmed || !got.Stays || got.NoRight {
				t.Errorf("%d %s: %s, stays %v, no right %v", code, page, got.Outcome, got.Stays, got.NoRight)
			}
		}
	}
}

// Guards invariant 5: an eviction names the UID of the judged pod.
func TestInvariant05EvictionNamesTheUID(t *testing.T) {
	t.Parallel()
	s := newServer(t, answer{code: 201, body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`}, answer{})
	s.evictor(t).Evict(t.Context(), evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
	sent := s.evictions[0]
	if sent.DeleteOptions == nil || sent.DeleteOptions.Preconditions == nil ||
		sent.DeleteOptions.Preconditions.UID == nil || string(*sent.DeleteOptions.Preconditions.UID) != "uid-1" {
		t.Errorf("the eviction carries no UID precondition: %+v", sent.DeleteOptions)
	}
}

// Guards invariant 8: a dry run differs in exactly one field.
func TestInvariant08DryRunDiffersInOneThing(t *testing.T) {
	t.Parallel()
	s := newServer(t, answer{code: 201, body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`}, answer{})
	evictor := s.evictor(t)
	grace := int64(5)
	request := evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1", GraceSeconds: &grace}
	wet := evictor.Evict(t.Context(), request)
	request.DryRun = true
	dry := evictor.Evict(t.Context(), request)
	if wet.Outcome != evict.Evicted || dry.Outcome != evict.WouldEvict {
		t.Errorf("outcomes %v and %v, want Evicted and WouldEvict", wet.Outcome, dry.Outcome)
	}
	want := s.evictions[0].DeepCopy()
	want.DeleteOptions.DryRun = []string{"All"}
	if diff := cmp.Diff(*want, s.evictions[1]); diff != "" {
		t.Errorf("the dry run's request (-want +got):\n%s", diff)
	}
}

// A token that the kubelet has renewed is read only for the request after a rejection: the
// request is repeated once, at once, and not a third time.
func TestUnknownCredentialsAreSentOnceMore(t *testing.T) {
	t.Parallel()
	for refusals, want := range map[int]evict.Outcome{1: evict.Evicted, 2: evict.Unconfirmed} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			given := answer{code: http.StatusUnauthorized, body: status("401", `"reason":"Unauthorized"`)}
			if r.Method == http.MethodPost {
				if asked++; asked > refusals {
					given.code, given.body = http.StatusCreated, `{"kind":"Status","apiVersion":"v1","status":"Success"}`
				}
			}
			given.write(w)
		}))
		t.Cleanup(server.Close)
		got := evictorAt(t, server.URL).Evict(t.Context(), evict.Request{Namespace: "n", Name: "p", UID: "u"})
		if got.Outcome != want || asked != 2 {
			t.Errorf("%d refusals: %s after %d requests, want %s after 2", refusals, got.Outcome, asked, want)
		}
	}
}
