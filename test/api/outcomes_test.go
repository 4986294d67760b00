package api

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// Each row of the table of outcomes has a test here with its name.
func TestEveryOutcomeHasATest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("outcomes_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, outcome := range evict.Outcomes() {
		if !strings.Contains(string(text), "\nfunc TestOutcome"+string(outcome)) {
			t.Errorf("no test is named TestOutcome%s…", outcome)
		}
	}
}

func TestOutcomeEvictedOn201(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.Evicted, http.StatusCreated)
	if !w.Terminating("web") {
		t.Error("the pod is not terminating")
	}
}

func TestOutcomeBlockedByBudgetOn429AndThePodStays(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	w.Budget("web-budget", "web")
	got := outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.BlockedByBudget, http.StatusTooManyRequests,
		"disruption budget", "needs 1 healthy pods and has 1 currently")
	if got.Budget != "web-budget" {
		t.Errorf("budget %q, want web-budget", got.Budget)
	}
	if w.Terminating("web") {
		t.Error("the pod is terminating")
	}
}

// An eviction and a delete apply only to the judged pod, and not to another one of its name.
func TestOutcomeGoneOn409AndTheNewPodStays(t *testing.T) {
	t.Parallel()
	for _, deletes := range []bool{false, true} {
		w := evictdtest.NewWorld(t)
		judged := evictdtest.RequestFor(w.Pod("web", 100))
		judged.UID, judged.Delete = "00000000-0000-0000-0000-000000000000", deletes // the judged pod had another UID
		outcome(t, evictdtest.Unlimited(), judged, evict.Gone, http.StatusConflict, "UID")
		if w.Terminating("web") {
			t.Errorf("by a delete: %t: a pod of the same name was hit", deletes)
		}
	}
}

func TestOutcomeGoneOn404(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	absent := evict.Request{Namespace: w.Namespace, Name: "absent", UID: "x"}
	outcome(t, evictdtest.Unlimited(), absent, evict.Gone, http.StatusNotFound, "not found")
}

func TestOutcomeMisconfiguredOn500OfTwoBudgets(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	w.Budget("one", "web")
	w.Budget("two", "web")
	outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.Misconfigured, http.StatusInternalServerError)
}

func TestOutcomeDeniedOn403WithoutTheRight(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	stranger := evictdtest.Unlimited()
	stranger.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.Namespace + ":default"}
	outcome(t, stranger, evictdtest.RequestFor(pod), evict.Denied, http.StatusForbidden, "forbidden")
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
	newWebhook(w).deny(code, message)
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
	hook := newWebhook(w)
	for name, fault := range map[string]func(){"it has a fault": func() { hook.fail() }, "the port is closed": hook.server.Close} {
		fault()
		outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.Throttled,
			http.StatusInternalServerError, "failed calling webhook")
		if w.Terminating("web") {
			t.Errorf("%s: the pod is terminating", name)
		}
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
	_, err := w.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(w.T.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.Namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"pods/eviction"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: message, Reason: &reason}},
		},
	}, metav1.CreateOptions{})
	w.Must(err)
	_, err = w.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(w.T.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: w.Namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	w.Must(err)
	w.Undo(func(ctx context.Context) {
		w.Kubectl(ctx, "", "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", w.Namespace)
	})
	w.Until("the policy denies", func(ctx context.Context) bool {
		probe := evict.Request{Namespace: w.Namespace, Name: "probe", UID: "x", DryRun: true}
		return strings.Contains(evictdtest.Evictor(w.T, evictdtest.Unlimited()).Evict(ctx, probe).Message, message)
	})
}

// Priority and fairness has one seat for this account, and it is taken: a 429 that no budget
// caused.
func TestOutcomeThrottledOn429OfPriorityAndFairness(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod, hook := w.Pod("web", 100), newWebhook(w)
	starving := evictdtest.Unlimited()
	starving.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.Namespace + ":default"}
	grant(w, "cluster-admin")
	starve(w, starving)
	hook.hold(t, "slow")
	answered := make(chan evict.Result, 1)
	go func() {
		slow := evictdtest.Evictor(t, starving)
		var result evict.Result
		_ = eventually.Poll(t.Context(), func(ctx context.Context) bool { // the last probe may still hold the seat for a moment
			result = slow.Evict(ctx, evict.Request{Namespace: w.Namespace, Name: "slow", UID: "x"})
			return result.Outcome != evict.Throttled || hook.count("slow") > 0
		})
		answered <- result
	}()
	w.Until("the seat is taken", func(context.Context) bool { return hook.count("slow") > 0 })
	got := outcome(t, starving, evictdtest.RequestFor(pod), evict.Throttled, http.StatusTooManyRequests, "too many requests")
	if got.RetryAfter <= 0 {
		t.Errorf("retry after %v, want what the server requested", got.RetryAfter)
	}
	if w.Terminating("web") {
		t.Error("the pod is terminating")
	}
	hook.release()
	expect(t, <-answered, evict.Gone)
}

// grant gives the namespace's default account a ClusterRole in it.
func grant(w *evictdtest.World, role string) {
	w.T.Helper()
	_, err := w.Client.RbacV1().RoleBindings(w.Namespace).Create(w.T.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: w.Namespace}},
	}, metav1.CreateOptions{})
	w.Must(err)
}

// starve makes the API server process one request at a time for these credentials, and
// reject all others. A share of 0 is one seat, when no other level uses it (k8s.io/apiserver
// pkg/util/flowcontrol/fairqueuing/queueset, canAccommodateSeatsLocked).
func starve(w *evictdtest.World, config *rest.Config) {
	w.T.Helper()
	user := config.Impersonate.UserName
	level := &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(0)), BorrowingLimitPercent: new(int32(0)),
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		},
	}
	level, err := w.Client.FlowcontrolV1().PriorityLevelConfigurations().Create(w.T.Context(), level, metav1.CreateOptions{})
	w.Must(err)
	_, err = w.Client.FlowcontrolV1().FlowSchemas().Create(w.T.Context(), &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: w.Namespace},
			MatchingPrecedence:         2,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: user}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}, ClusterScope: true,
				}},
			}},
		},
	}, metav1.CreateOptions{})
	w.Must(err)
	w.Undo(func(ctx context.Context) {
		w.Kubectl(ctx, "", "delete", "flowschema,prioritylevelconfiguration", w.Namespace)
	})
	var reached atomic.Pointer[string]
	probing := rest.CopyConfig(config)
	probing.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := inner.RoundTrip(r)
			if err == nil {
				reached.Store(new(response.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)))
			}
			return response, err
		})
	})
	probe := evictdtest.Evictor(w.T, probing)
	w.Until("the API server follows the priority level", func(ctx context.Context) bool {
		result := probe.Evict(ctx, evict.Request{Namespace: w.Namespace, Name: "absent", UID: "x", DryRun: true})
		uid := reached.Load()
		return result.Outcome == evict.Gone && uid != nil && *uid == string(level.UID)
	})
}

// roundTrip is a function as a RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOutcomeWouldEvictLeavesThePodAndTheBudgetAsTheyAre(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	b := w.Budget("web", "web")
	request := evictdtest.RequestFor(pod)
	request.DryRun = true
	expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.BlockedByBudget)

	none := intstr.FromInt32(0)
	b.Spec.MinAvailable = &none
	_, err := w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Update(t.Context(), b, metav1.UpdateOptions{})
	w.Must(err)
	w.Until("the budget allows one", func(ctx context.Context) bool {
		b, err = w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DisruptionsAllowed == 1
	})
	for range 20 {
		expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.WouldEvict)
	}
	if w.Terminating("web") {
		t.Error("a dry run evicted the pod")
	}
	b, err = w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	w.Must(err)
	if b.Status.DisruptionsAllowed != 1 || len(b.Status.DisruptedPods) != 0 {
		t.Errorf("a dry run used the budget up: %+v", b.Status)
	}
}

func TestGraceIsTheOneThatWasRequested(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	request, five := evictdtest.RequestFor(pod), int64(5)
	request.GraceSeconds = &five
	expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.Evicted)
	evicted, err := w.Client.CoreV1().Pods(w.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	w.Must(err)
	if evicted.DeletionGracePeriodSeconds == nil || *evicted.DeletionGracePeriodSeconds != 5 {
		t.Errorf("grace %v, want 5", evicted.DeletionGracePeriodSeconds)
	}
	if !hasCondition(evicted, corev1.DisruptionTarget, "EvictionByEvictionAPI") {
		t.Errorf("the API server did not mark the pod: %+v", evicted.Status.Conditions)
	}
	// A pod that is terminating already gets less time, which is what an overdue victim is asked again with.
	two := int64(2)
	request.GraceSeconds = &two
	expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.Evicted)
	evicted, err = w.Client.CoreV1().Pods(w.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	w.Must(err)
	if evicted.DeletionGracePeriodSeconds == nil || *evicted.DeletionGracePeriodSeconds != 2 {
		t.Errorf("grace %v after a second eviction, want 2", evicted.DeletionGracePeriodSeconds)
	}
}

func hasCondition(pod *corev1.Pod, kind corev1.PodConditionType, reason string) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind && c.Reason == reason {
			return true
		}
	}
	return false
}

// A budget whose status is behind its spec returns 429 with Retry-After: 10, which client-go
// would otherwise wait for ten times inside the call.
func TestOutcomeBudgetPendingOn429WithRetryAfter(t *testing.T) {
	w := evictdtest.NewWorld(t) // not parallel: it stops the controller manager
	pod := w.Pod("web", 100)
	b := w.Budget("web", "web")
	w.Must(evictdtest.Cluster().StopProcess(t.Context(), "kube-controller-manager"))
	defer func() {
		w.Must(evictdtest.Cluster().StartProcess(context.WithoutCancel(t.Context()), "kube-controller-manager"))
	}()
	two := intstr.FromInt32(2)
	b.Spec.MinAvailable = &two
	_, err := w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Update(t.Context(), b, metav1.UpdateOptions{})
	w.Must(err)
	got := outcome(t, evictdtest.Unlimited(), evictdtest.RequestFor(pod), evict.BudgetPending,
		http.StatusTooManyRequests, "still being processed")
	if got.RetryAfter != 10*time.Second {
		t.Errorf("retry after %v, want what the server requested: 10 s", got.RetryAfter)
	}
}

// cut breaks the connection after the API server has responded: the eviction happened, but
// its response is lost.
type cut struct {
	inner http.RoundTripper
	done  bool
}

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.inner.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && !c.done {
		c.done = true
		_ = response.Body.Close()
		return nil, http.ErrServerClosed
	}
	return response, err
}

func TestOutcomeUnknownIsResolvedByReadingThePodAgain(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod := w.Pod("web", 100)
	config := evictdtest.Unlimited()
	config.Wrap(transport.WrapperFunc(func(rt http.RoundTripper) http.RoundTripper { return &cut{inner: rt} }))
	expect(t, evictdtest.Evictor(t, config).Evict(t.Context(), evictdtest.RequestFor(pod)), evict.Evicted, "reading the pod again showed the outcome")
}

func TestOutcomeUnknownWithoutAServer(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	got := evictdtest.Evictor(t, config).Evict(t.Context(), evict.Request{Namespace: "n", Name: "p", UID: "u"})
	expect(t, got, evict.Unconfirmed, "refused")
}

// A delete that bypasses a budget is accepted where an eviction is not.
func TestOutcomeDeletedOn200PastABudget(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	request := evictdtest.RequestFor(w.Pod("web", 100))
	w.Budget("web", "web")
	expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.BlockedByBudget)
	request.Delete = true
	outcome(t, evictdtest.Unlimited(), request, evict.Deleted, http.StatusOK)
	if !w.Terminating("web") {
		t.Error("the pod is not terminating")
	}
}

func TestOutcomeWouldDeleteLeavesThePod(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	request := evictdtest.RequestFor(w.Pod("web", 100))
	request.Delete, request.DryRun = true, true
	expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), request), evict.WouldDelete)
	if w.Terminating("web") {
		t.Error("a dry run deleted the pod")
	}
}

// A budget that has no room lets its broken pods go only where it says so.
func TestOutcomeEvictedWhereABudgetAllowsItsBrokenPods(t *testing.T) {
	t.Parallel()
	for policy, want := range map[policyv1.UnhealthyPodEvictionPolicyType]evict.Outcome{
		policyv1.AlwaysAllow: evict.Evicted, policyv1.IfHealthyBudget: evict.BlockedByBudget,
	} {
		w := evictdtest.NewWorld(t)
		pod := w.Pod("web", 100)
		crashLoops(w, pod)
		budgetOfTheBroken(w, "web", policy)
		expect(t, evictdtest.Evictor(t, evictdtest.Unlimited()).Evict(t.Context(), evictdtest.RequestFor(pod)), want)
		if w.Terminating("web") != (want == evict.Evicted) {
			t.Errorf("%s: whether the pod is terminating: %t", policy, w.Terminating("web"))
		}
	}
}

// crashLoops gives a pod the status that the kubelet reports for a crash loop.
func crashLoops(w *evictdtest.World, pod *corev1.Pod) {
	w.T.Helper()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "c", RestartCount: 7, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
	_, err := w.Client.CoreV1().Pods(w.Namespace).UpdateStatus(w.T.Context(), pod, metav1.UpdateOptions{})
	w.Must(err)
}

// budgetOfTheBroken creates a budget over one pod, which is not healthy and must stay, and waits until
// it was counted.
func budgetOfTheBroken(w *evictdtest.World, app string, policy policyv1.UnhealthyPodEvictionPolicyType) {
	w.T.Helper()
	one := intstr.FromInt32(1)
	b, err := w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Create(w.T.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, UnhealthyPodEvictionPolicy: &policy,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	w.Must(err)
	w.Until("the disruption controller has counted the broken pod", func(ctx context.Context) bool {
		b, err = w.Client.PolicyV1().PodDisruptionBudgets(w.Namespace).Get(ctx, app, metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DesiredHealthy == 1 && b.Status.CurrentHealthy == 0
	})
}

// The same request is accepted once the webhook allows it: a denial is not the last word.
func TestOutcomeDeniedUntilAWebhookAllows(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	pod, other, hook := w.Pod("web", 100), w.Pod("other", 100), newWebhook(w)
	hook.deny(http.StatusForbidden, "it is payday", "other")
	evictor := evictdtest.Evictor(t, evictdtest.Unlimited())
	expect(t, evictor.Evict(t.Context(), evictdtest.RequestFor(pod)), evict.Denied, "it is payday")
	expect(t, evictor.Evict(t.Context(), evictdtest.RequestFor(other)), evict.Evicted)
	hook.allow()
	expect(t, evictor.Evict(t.Context(), evictdtest.RequestFor(pod)), evict.Evicted)
}
