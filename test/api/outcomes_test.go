package api

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// Each row of the table of outcomes has a test here, or a row of one, with its name.
func TestEveryOutcomeHasATest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("outcomes_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, outcome := range evict.Outcomes() {
		if !regexp.MustCompile(`\n(func Test|\t\t")Outcome` + string(outcome)).Match(text) {
			t.Errorf("no test and no row is named Outcome%s…", outcome)
		}
	}
}

// Of a pod, which a budget keeps or not; it is terminating afterwards where it was evicted or deleted, and stays else. An
// eviction and a delete apply only to the judged pod, and not to another one of its name.
func TestOutcomeOfOnePod(t *testing.T) {
	t.Parallel()
	none := func(*evict.Request) {}
	deletes := func(r *evict.Request) { r.Delete = true }
	another := func(r *evict.Request) { r.UID = "00000000-0000-0000-0000-000000000000" } // the judged pod had another UID
	for name, test := range map[string]struct {
		budget    bool
		change    func(*evict.Request)
		want      evict.Outcome
		code      int
		fragments []string
	}{
		"OutcomeEvicted":             {false, none, evict.Evicted, http.StatusCreated, nil},
		"OutcomeBlockedByBudget":     {true, none, evict.BlockedByBudget, http.StatusTooManyRequests, []string{"disruption budget", "needs 1 healthy pods and has 1 currently"}},
		"OutcomeGone, of another":    {false, another, evict.Gone, http.StatusConflict, []string{"UID"}},
		"OutcomeGone, by a delete":   {false, func(r *evict.Request) { deletes(r); another(r) }, evict.Gone, http.StatusConflict, []string{"UID"}},
		"OutcomeGone, not there":     {false, func(r *evict.Request) { r.Name = "absent" }, evict.Gone, http.StatusNotFound, []string{"not found"}},
		"OutcomeDeleted":             {true, deletes, evict.Deleted, http.StatusOK, nil}, // past a budget that keeps it from an eviction
		"OutcomeWouldDelete":         {false, func(r *evict.Request) { r.Delete, r.DryRun = true, true }, evict.WouldDelete, http.StatusOK, nil},
		"OutcomeThrottled, no right": {false, none, evict.Throttled, http.StatusForbidden, []string{"forbidden"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, as, kept := evictdtest.NewWorld(t), evictdtest.Unlimited(), ""
			request := evictdtest.RequestFor(w.Pod("web", 100))
			test.change(&request)
			if test.budget {
				w.Budget("web-budget", "web")
			}
			if test.want == evict.Throttled {
				as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.Namespace + ":default"}
			}
			if test.want == evict.BlockedByBudget {
				kept = "web-budget"
			}
			if got := outcome(t, as, request, test.want, test.code, test.fragments...); got.Budget != kept {
				t.Errorf("budget %q, want %q", got.Budget, kept)
			}
			if ends := test.want == evict.Evicted || test.want == evict.Deleted; w.Terminating("web") != ends {
				t.Errorf("the pod is terminating: %t", !ends)
			}
		})
	}
}

func TestOutcomeMisconfiguredOn500OfTwoBudgets(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	w.Budget("one", "web")
	w.Budget("two", "web")
	outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.Misconfigured, http.StatusInternalServerError)
}

// A webhook chooses the code of its denial. It may be the code of a missing pod or of a failing server.
func TestOutcomeDeniedByAWebhook(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{
		http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusNotFound,
		http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable,
	} {
		expectOfWebhook(t, code, "it is payday", evict.Denied, "it is payday")
	}
}

// expectOfWebhook has a webhook deny an eviction, and checks the outcome, the code that was received and
// that the pod stays.
func expectOfWebhook(t *testing.T, code int32, message string, want evict.Outcome, says string) {
	t.Helper()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	newWebhook(w, &metav1.Status{Code: code, Message: message}, says)
	outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), want, int(code), says)
	if w.Terminating("web") {
		t.Error("the pod is terminating")
	}
}

// A webhook that moves the pod away because of the request answers 429, as KubeVirt's.
func TestOutcomeEvacuatingOn429OfAWebhook(t *testing.T) {
	t.Parallel()
	expectOfWebhook(t, http.StatusTooManyRequests, "Eviction triggered evacuation of VMI", evict.Evacuating, "triggered evacuation")
}

// It fails closed: nothing has happened, and the pods that it does not match can still be
// evicted.
func TestOutcomeThrottledByAWebhookThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	const message = "failed calling webhook"
	hook := newWebhook(w, nil, message)
	for _, fault := range []string{"its answer is no review", "its port is closed"} {
		outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.Throttled, http.StatusInternalServerError, message)
		if w.Terminating("web") {
			t.Errorf("%s: the pod is terminating", fault)
		}
		hook.Close()
	}
}

// The policy's author chooses the code by its reason.
func TestOutcomeDeniedByAPolicy(t *testing.T) {
	t.Parallel()
	for reason, code := range map[metav1.StatusReason]int{
		metav1.StatusReasonForbidden: http.StatusForbidden, metav1.StatusReasonInvalid: http.StatusUnprocessableEntity,
		metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge,
	} {
		w := evictdtest.NewWorld(t)
		pod := w.Pod("web", 100)
		forbid(w, reason, "not in office hours")
		outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.Denied, code, "not in office hours")
	}
}

// forbid creates a policy that denies the namespace's evictions with a reason, until the end
// of the test, and waits until it is in effect.
func forbid(w *evictdtest.World, reason metav1.StatusReason, message string) {
	w.T.Helper()
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: ["*"], resources: [pods/eviction]}]
  validations: [{expression: "false", message: MESSAGE, reason: REASON}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE, validationActions: [Deny]}
`
	text := strings.NewReplacer("NAMESPACE", w.Namespace, "MESSAGE", message, "REASON", string(reason)).Replace(policy)
	w.Kubectl(w.T.Context(), text, "create", "-f", "-")
	w.Undo(func(ctx context.Context) {
		w.Kubectl(ctx, "", "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", w.Namespace)
	})
	untilAnswered(w, message)
}

func TestOutcomeWouldEvictLeavesThePodAndTheBudgetAsTheyAre(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	w.Budget("web", "web")
	request := evictdtest.RequestFor(pod)
	request.DryRun = true
	expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.BlockedByBudget)

	needs(w, 0)
	w.Until("the budget allows one", func(ctx context.Context) bool {
		b, err := w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DisruptionsAllowed == 1
	})
	for range 20 {
		expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.WouldEvict)
	}
	if w.Terminating("web") {
		t.Error("a dry run evicted the pod")
	}
	b, err := w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	w.Must(err)
	if b.Status.DisruptionsAllowed != 1 || len(b.Status.DisruptedPods) != 0 {
		t.Errorf("a dry run used the budget up: %+v", b.Status)
	}
}

// needs changes how many pods the budget web wants.
func needs(w *evictdtest.World, pods int) {
	w.T.Helper()
	w.Kubectl(w.T.Context(), "", "-n", w.Namespace, "patch", "poddisruptionbudget", "web", "--patch", fmt.Sprintf(`{"spec":{"minAvailable":%d}}`, pods))
}

func TestGraceIsTheOneThatWasRequested(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	// A pod that is terminating already gets less time, which is what an overdue victim is asked again with.
	for _, grace := range []int64{5, 2} {
		request := evictdtest.RequestFor(pod)
		request.GraceSeconds = &grace
		expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.Evicted)
		evicted, err := w.Client.CoreV1().Pods(w.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
		w.Must(err)
		if got := evicted.DeletionGracePeriodSeconds; got == nil || *got != grace {
			t.Errorf("grace %v, want %d", got, grace)
		}
		if !slices.ContainsFunc(evicted.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Reason == "EvictionByEvictionAPI"
		}) {
			t.Errorf("the API server did not mark the pod: %+v", evicted.Status.Conditions)
		}
	}
}

// A budget whose status is behind its spec returns 429 with Retry-After: 10, which client-go
// would otherwise wait for ten times inside the call.
func TestOutcomeBudgetPendingOn429WithRetryAfter(t *testing.T) {
	w := evictdtest.NewWorld(t) // not parallel: it stops the controller manager
	pod := w.Pod("web", 100)
	w.Budget("web", "web")
	w.Must(evictdtest.Cluster().StopProcess(t.Context(), "kube-controller-manager"))
	defer func() {
		w.Must(evictdtest.Cluster().StartProcess(context.WithoutCancel(t.Context()), "kube-controller-manager"))
	}()
	needs(w, 2)
	got := outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.BudgetPending,
		http.StatusTooManyRequests, "still being processed")
	if got.RetryAfter != 10*time.Second {
		t.Errorf("retry after %v, want what the server requested: 10 s", got.RetryAfter)
	}
}

// The eviction happened, but its response is lost.
func TestOutcomeUnknownIsResolvedByReadingThePodAgain(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	cut := answered(evictdtest.Unlimited(), func(r *http.Response) error {
		if r.Request.Method == http.MethodPost {
			return http.ErrServerClosed
		}
		return nil
	})
	expect(t, evictdtest.Evictor(t, cut).Evict(t.Context(), evictdtest.RequestFor(pod)), evict.Evicted, "reading the pod again showed the outcome")
}

func TestOutcomeUnknownWithoutAServer(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	got := evictdtest.Evictor(t, config).Evict(t.Context(), evict.Request{Namespace: "n", Name: "p", UID: "u"})
	expect(t, got, evict.Unconfirmed, "refused")
}
