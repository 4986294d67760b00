package evict_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest/fake"

	"github.com/evictd/evictd/pkg/evict"
)

// server is client-go's fake client. It answers the requests about one pod with prepared texts, and keeps them by
// their methods.
type server struct {
	fake.RESTClient
	asked map[string][]*http.Request
}

// answer is one prepared response, in JSON where it has no header; a zero code closes the connection.
type answer struct {
	code   int
	header http.Header
	body   string
}

// response returns the answer to a request whose context has not ended.
func (a answer) response(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if a.code == 0 {
		return nil, io.EOF
	}
	if a.header == nil {
		a.header = http.Header{"Content-Type": {"application/json"}}
	}
	return &http.Response{StatusCode: a.code, Header: a.header, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

// serve has an answer to each request.
func serve(t *testing.T, answering func(*http.Request) answer) *server {
	t.Helper()
	s := &server{asked: map[string][]*http.Request{}}
	s.GroupVersion, s.VersionedAPIPath, s.NegotiatedSerializer = corev1.SchemeGroupVersion, "/api/v1", scheme.Codecs.WithoutConversion()
	s.Client = fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
		s.asked[r.Method] = append(s.asked[r.Method], r)
		accepted := r.Header.Get("Accept")
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods/web-1") && !strings.Contains(accepted, "as=PartialObjectMetadata") {
			t.Errorf("the whole pod was requested: %q", accepted)
		}
		return answering(r).response(r)
	})
	return s
}

// newServer has an answer to evictions and deletes, and one to reads.
func newServer(t *testing.T, toEviction, toRead answer) *server {
	t.Helper()
	return serve(t, func(r *http.Request) answer {
		if r.Method == http.MethodGet {
			return toRead
		}
		return toEviction
	})
}

func (s *server) reads() int { return len(s.asked[http.MethodGet]) }

func (s *server) evictor() *evict.Evictor { return evict.New(s, time.Now) }

// evict evicts the pod.
func (s *server) evict(ctx context.Context) evict.Result {
	return s.evictor().Evict(ctx, evict.Request{Namespace: "shop", Name: "web-1", UID: "uid-1"})
}

// failed is a Status with these fields as the answer.
func failed(code int, fields string) answer {
	return answer{code: code, body: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":` + strconv.Itoa(code) + `,` + fields + `}`}
}

func (a answer) after(seconds, kind string) answer {
	a.header = http.Header{"Retry-After": {seconds}, "Content-Type": {kind}}
	return a
}

// tooMany is the answer of priority and fairness.
func tooMany() answer {
	return answer{code: 429, body: "Too many requests, please try again later."}.after("1", "text/plain")
}

// outcomes are answers to a request, and to the reading of the pod, which is not read where there is none; and what
// the two say. Message, Sent and Took are not compared.
type outcomes map[string]struct {
	request, read answer
	want          evict.Result
}

func (o outcomes) check(t *testing.T, request evict.Request) {
	t.Helper()
	request.Namespace, request.Name, request.UID = "shop", "web-1", "uid-1"
	for name, test := range o {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, reads := newServer(t, test.request, test.read), 0
			if test.read.code != 0 {
				reads = 1
			}
			got := s.evictor().Evict(t.Context(), request)
			if got.Sent.IsZero() || (got.Message == "") != (test.want.Outcome.Accepted() && reads == 0) {
				t.Errorf("sent %v, message %q", got.Sent, got.Message)
			}
			got.Message, got.Sent, got.Took = "", time.Time{}, 0
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if sent := len(s.asked[http.MethodPost]) + len(s.asked[http.MethodDelete]); sent != 1 || s.reads() != reads {
				t.Errorf("%d requests and %d reads, want 1 and %d", sent, s.reads(), reads)
			}
		})
	}
}

func is(outcome evict.Outcome) evict.Result { return evict.Result{Outcome: outcome} }

func silent(outcome evict.Outcome) evict.Result {
	return evict.Result{Outcome: outcome, NoResponse: true, Pending: true, Stays: outcome == evict.Unconfirmed}
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
	const (
		notFound = `"message":"pods \"web-1\" not found","reason":"NotFound","details":{"name":"web-1","kind":"pods"}`
		ofBudget = `"details":{"name":"web","group":"policy","kind":"poddisruptionbudgets"`
		ofPod    = `"reason":"Forbidden","details":{"name":"web-1","kind":"pods"`
		tooBig   = `poddisruptionbudget.policy \"web\" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller`
		elseNode = `ValidatingAdmissionPolicy 'evictd-evicts-on-own-node' denied request: evictd on node \"a\" may evict only pods of that node`
		conflict = `"reason":"Conflict","message":"Operation cannot be fulfilled on poddisruptionbudgets.policy \"web\": `
		storage  = `StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition failed: UID in precondition: a, UID in object meta: b`
	)
	stays := func(pending bool) evict.Result {
		return evict.Result{Outcome: evict.Unconfirmed, Stays: true, Pending: pending}
	}
	there, leaving, gone := answer{code: 200, body: podOfUID}, answer{code: 200, body: podLeaving}, failed(404, notFound)
	outcomes{
		"201 is Evicted":                                   {answer{code: 201, body: `{"kind":"Status","apiVersion":"v1","status":"Success","code":201}`}, answer{}, is(evict.Evicted)},
		"404 of the pod is Gone":                           {gone, answer{}, is(evict.Gone)},
		"404 of the budget is BudgetPending":               {failed(404, `"message":"poddisruptionbudgets.policy \"web\" not found","reason":"NotFound",`+ofBudget+`}`), answer{}, is(evict.BudgetPending)},
		"409 on the UID is Gone":                           {failed(409, uidConflict), answer{}, is(evict.Gone)},
		"409 on the budget is BudgetPending":               {failed(409, conflict+`the object has been modified",`+ofBudget+`}`), answer{}, is(evict.BudgetPending)},
		"409 on the budget's UID is that too":              {failed(409, conflict+storage+`",`+ofBudget+`}`), answer{}, is(evict.BudgetPending)},
		"409 on neither is Unknown":                        {failed(409, `"message":"the UID is odd","reason":"Conflict","details":{"name":"web","kind":"quotas"}`), there, stays(false)},
		"429 of a budget without delay is BlockedByBudget": {failed(429, budgetMessage+","+budgetBlocked), answer{}, evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"}},
		"429 of a budget with a delay is BudgetPending and is not retried inside": {
			failed(429, budgetMessage+","+budgetPending).after("10", "application/json"),
			answer{},
			evict.Result{Outcome: evict.BudgetPending, Budget: "web", RetryAfter: 10 * time.Second},
		},
		"429 of priority and fairness is Throttled":    {tooMany(), answer{}, evict.Result{Outcome: evict.Throttled, RetryAfter: time.Second}},
		"403 without a reason is Denied":               {failed(403, `"message":"pods \"web-1\" is forbidden",`+ofPod+`}`), answer{}, is(evict.Denied)},
		"403 of a negative budget is BlockedByBudget":  {failed(403, `"message":"pdb disruptions allowed is negative","reason":"Forbidden",`+ofBudget+`}`), answer{}, is(evict.BlockedByBudget)},
		"403 of an overfull budget is BlockedByBudget": {failed(403, `"message":"`+tooBig+`","reason":"Forbidden",`+ofBudget+`}`), answer{}, is(evict.BlockedByBudget)},
		"403 of that, with the cause that 1.37 adds": {
			failed(403, `"message":"`+tooBig+`","reason":"Forbidden",`+ofBudget+`,"causes":[{"reason":"DisruptionBudget",`+
				`"message":"The disruption budget web does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller"}]}`),
			answer{},
			evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"},
		},
		"403 of a policy is Denied, with its message": {
			failed(403, `"message":"pods \"web-1\" is forbidden: `+elseNode+`",`+ofPod+`,"causes":[{"message":"`+elseNode+`"}]}`), answer{}, is(evict.Denied),
		},
		"422 of a policy that gives no reason is Denied":      {failed(422, `"message":"ValidatingAdmissionPolicy 'own-node' denied request","reason":"Invalid"`), answer{}, is(evict.Denied)},
		"500 of two budgets is Misconfigured":                 {failed(500, `"message":"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."`), answer{}, is(evict.Misconfigured)},
		"500 otherwise is Unknown when the pod is there":      {failed(500, `"message":"etcdserver: no space"`), there, stays(false)},
		"500 of an etcd without an answer may be late":        {failed(500, `"message":"etcdserver: request timed out"`), there, stays(true)},
		"504 may be carried out late":                         {failed(504, `"message":"Timeout: request did not complete within requested timeout","reason":"Timeout"`), there, stays(true)},
		"a broken connection, and it is terminating: Evicted": {answer{}, leaving, silent(evict.Evicted)},
		"a broken connection, and another UID: Evicted":       {answer{}, answer{code: 200, body: podReplaced}, silent(evict.Evicted)},
		"a broken connection, and not found: Evicted":         {answer{}, gone, silent(evict.Evicted)},
		"a refusal that proves nothing, and not found: Gone":  {failed(409, `"message":"odd","reason":"Conflict"`), gone, is(evict.Gone)},
		"a 404 of another than the pods' storage is none":     {answer{}, answer{code: 404, body: "404 page not found"}, evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true}},
	}.check(t, evict.Request{})
}

// Admission responds before any budget, with any code that its author chose, and may write text that otherwise only a
// budget writes. A proxy's error page proves nothing: not a budget, not a missing pod, not a missing right.
func TestAnswersOfAdmissionAndProxiesWithAnyCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]evict.Outcome{
		`admission webhook \"evictions.example.com\" denied the request: failed calling webhook \"x\"`:                 evict.Denied,
		`admission webhook \"evictions.example.com\" denied the request without explanation`:                           evict.Denied,
		`pods \"web-1\" is forbidden: ValidatingAdmissionPolicy 'office' with binding 'hours' denied request: not now`: evict.Denied,
		"<html>no</html>":                       evict.Unconfirmed,
		`no UID, cannot delete resource "pods"`: evict.Unconfirmed,
		` denied request: no`:                   evict.Unconfirmed,
	} {
		for _, code := range []int{400, 401, 403, 404, 409, 413, 422, 500, 502, 503} {
			given, denied := failed(code, `"message":"`+text+`",`+budgetPending), want == evict.Denied
			if !denied {
				given = answer{code: code, header: http.Header{"Content-Type": {"text/html"}}, body: text}
			}
			s := newServer(t, given, answer{code: 200, body: podOfUID})
			got := s.evict(t.Context())
			if got.Outcome != want || got.Budget != "" || got.NoRight || got.Stays == denied || (s.reads() == 0) != denied {
				t.Errorf("%d %s: %+v after %d reads, want %s", code, text, got, s.reads(), want)
			}
		}
	}
}

// KubeVirt's webhook begins a live migration and answers 429; the body is that of its admitter. A webhook
// that is restarted keeps its own pods for a moment, and no other.
func TestFaultAWebhookThatKeepsItsPodForNow(t *testing.T) {
	t.Parallel()
	migrates, unreached := is(evict.Evacuating), evict.Result{Outcome: evict.Throttled, PodAlone: true}
	outcomes{
		"it moves the pod": {failed(429, `"reason":"TooManyRequests",`+
			`"message":"admission webhook \"virt-launcher-eviction-interceptor.kubevirt.io\" denied the request: Eviction triggered evacuation of VMI \"shop/vm\""`), answer{}, migrates},
		"it cannot be called": {failed(500, `"reason":"InternalError",`+
			`"message":"Internal error occurred: failed calling webhook \"x\": failed to call webhook: connection refused"`), answer{}, unreached},
	}.check(t, evict.Request{})
	if migrates.TriesNext() || migrates.Outcome.Accepted() || !unreached.TriesNext() {
		t.Error("a pod that moves waits for itself, and one whose webhook is away for nothing")
	}
}

// A token that the kubelet has renewed is read only for the request after a rejection: the
// request is repeated once, at once, and not a third time.
func TestUnknownCredentialsAreSentOnceMore(t *testing.T) {
	t.Parallel()
	for refusals, want := range map[int]evict.Outcome{1: evict.Evicted, 2: evict.Unconfirmed} {
		var s *server
		s = serve(t, func(r *http.Request) answer {
			if r.Method == http.MethodPost && len(s.asked[r.Method]) > refusals {
				return answer{code: http.StatusCreated, body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`}
			}
			return failed(http.StatusUnauthorized, `"reason":"Unauthorized"`)
		})
		if got := s.evict(t.Context()); got.Outcome != want || len(s.asked[http.MethodPost]) != 2 {
			t.Errorf("%d refusals: %s after %d requests, want %s after 2", refusals, got.Outcome, len(s.asked[http.MethodPost]), want)
		}
	}
}

// The response of a starting API server 1.36 concerns no pod, and the state ends within
// seconds.
func TestFaultStartingServerIsThrottled(t *testing.T) {
	t.Parallel()
	says := func(text string) answer {
		return failed(403, `"message":"`+text+`","reason":"Forbidden","details":{"name":"web-1","kind":"pods"}`)
	}
	outcomes{
		"roles that are not read": {says(`pods \"web-1\" is forbidden: User \"system:serviceaccount:evictd:evictd\" cannot create resource ` +
			`\"pods/eviction\" in API group \"\" in the namespace \"shop\"`), answer{}, is(evict.Throttled)},
		"not ready": {says(`pods \"web-1\" is forbidden: not yet ready to handle request`), answer{}, is(evict.Throttled)},
		"a policy that is not synced": {says(`pods \"web-1\" is forbidden: ValidatingAdmissionPolicy 'evictd-evicts-on-own-node' with binding 'evictd-evicts-on-own-node' ` +
			"denied request: failed to configure binding: paramKind kind `/v1, Kind=Pod` not yet synced to use for admission"), answer{}, is(evict.Throttled)},
		"a webhook that quotes this text": {says(`admission webhook \"x.example.com\" denied the request: not yet ready to handle request`), answer{}, is(evict.Denied)},
	}.check(t, evict.Request{})
}

// 64 decisions keep the text of 110 denials by a policy engine.
func TestFaultMessagesAreCutWhereTheyEnter(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 10<<10)
	s := newServer(t, failed(403, `"message":"admission webhook \"x\" denied the request: `+long+`"`), answer{})
	got := s.evict(t.Context())
	if len(got.Message) > 1<<10 || len(got.Message) < 1000 || !utf8.ValidString(got.Message) || !strings.HasSuffix(got.Message, "…") {
		t.Errorf("%d bytes, valid %v: %.80q", len(got.Message), utf8.ValidString(got.Message), got.Message)
	}
	if got.Outcome != evict.Denied {
		t.Errorf("outcome %s, want Denied", got.Outcome)
	}
	// An error of the transport, which quotes its input, is cut too.
	s.Err = errors.New(long)
	got = s.evict(t.Context())
	if len(got.Message) > 1<<10 {
		t.Errorf("%d bytes of an error", len(got.Message))
	}
}

// A request that its caller has withdrawn is in doubt, and says why.
func TestWithdrawnRequestIsInDoubt(t *testing.T) {
	t.Parallel()
	ctx, withdraw := context.WithCancelCause(t.Context())
	got := serve(t, func(r *http.Request) answer {
		if r.Method == http.MethodPost {
			withdraw(errors.New("for a reason"))
		}
		return answer{code: 200, body: podOfUID}
	}).evict(ctx)
	if got.Outcome != evict.Unconfirmed || !got.Withdrawn || !got.Pending || !got.Stays || got.Message != "for a reason" {
		t.Errorf("%+v, want one in doubt whose pod stays, for a reason", got)
	}
}
