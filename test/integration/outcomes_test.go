package integration

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/evictd/evictd/pkg/evict"
)

// codes notes the status codes of the answers, so that a test can say which one
// the real API server gave.
type codes struct {
	inner http.RoundTripper
	seen  []int
}

func (c *codes) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.inner.RoundTrip(r)
	if err == nil {
		c.seen = append(c.seen, response.StatusCode)
	}
	return response, err
}

// listening returns credentials that note the status codes.
func listening(config *rest.Config) (*rest.Config, *codes) {
	c := &codes{}
	config.Wrap(transport.WrapperFunc(func(rt http.RoundTripper) http.RoundTripper {
		c.inner = rt
		return c
	}))
	return config, c
}

func expectCode(t *testing.T, c *codes, want int) {
	t.Helper()
	if len(c.seen) != 1 || c.seen[0] != want {
		t.Errorf("status codes %v, want one request and %d", c.seen, want)
	}
}

func TestAccepted201IsEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.pod("web", 100)
	config, seen := listening(unlimited())
	expect(t, evictorFor(t, config).Evict(t.Context(), requestFor(pod)), evict.Evicted)
	expectCode(t, seen, http.StatusCreated)
	if !w.terminating("web") {
		t.Error("the pod is not terminating")
	}
}

func TestBudgetAnswers429AndThePodStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.pod("web", 100)
	w.budget("web-budget", "web")
	config, seen := listening(unlimited())
	got := evictorFor(t, config).Evict(t.Context(), requestFor(pod))
	expect(t, got, evict.BlockedByBudget, "disruption budget", "needs 1 healthy pods and has 1 currently")
	expectCode(t, seen, http.StatusTooManyRequests)
	if got.Budget != "web-budget" {
		t.Errorf("budget %q, want web-budget", got.Budget)
	}
	if w.terminating("web") {
		t.Error("the pod is terminating")
	}
}

func TestUIDPreconditionAnswers409AndTheNewPodStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.pod("web", 100)
	judged := requestFor(pod)
	judged.UID = "00000000-0000-0000-0000-000000000000" // the pod that was judged had another UID
	config, seen := listening(unlimited())
	expect(t, evictorFor(t, config).Evict(t.Context(), judged), evict.Gone, "UID")
	expectCode(t, seen, http.StatusConflict)
	if w.terminating("web") {
		t.Error("a pod of the same name was hit")
	}
}

func TestMissingPodAnswers404IsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config, seen := listening(unlimited())
	got := evictorFor(t, config).Evict(t.Context(), evict.Request{Namespace: w.namespace, Name: "nobody", UID: "x"})
	expect(t, got, evict.Gone, "not found")
	expectCode(t, seen, http.StatusNotFound)
}

func TestTwoBudgetsAnswer500IsMisconfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.pod("web", 100)
	w.budget("one", "web")
	w.budget("two", "web")
	config, seen := listening(unlimited())
	expect(t, evictorFor(t, config).Evict(t.Context(), requestFor(pod)), evict.Misconfigured)
	expectCode(t, seen, http.StatusInternalServerError)
}

func TestNoRightAnswers403IsDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.pod("web", 100)
	stranger := unlimited()
	stranger.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.namespace + ":default"}
	config, seen := listening(stranger)
	expect(t, evictorFor(t, config).Evict(t.Context(), requestFor(pod)), evict.Denied, "forbidden")
	expectCode(t, seen, http.StatusForbidden)
}

func TestDryRunLeavesThePodAndTheBudgetAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.pod("web", 100)
	b := w.budget("web", "web")
	request := requestFor(pod)
	request.DryRun = true
	expect(t, evictorFor(t, unlimited()).Evict(t.Context(), request), evict.BlockedByBudget)

	none := intstr.FromInt32(0)
	b.Spec.MinAvailable = &none
	_, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Update(t.Context(), b, metav1.UpdateOptions{})
	w.must(err)
	w.until("the budget allows one", func(ctx context.Context) bool {
		b, err = w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DisruptionsAllowed == 1
	})
	for range 20 {
		expect(t, evictorFor(t, unlimited()).Evict(t.Context(), request), evict.WouldEvict)
	}
	if w.terminating("web") {
		t.Error("a dry run evicted the pod")
	}
	b, err = w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	w.must(err)
	if b.Status.DisruptionsAllowed != 1 || len(b.Status.DisruptedPods) != 0 {
		t.Errorf("a dry run used the budget up: %+v", b.Status)
	}
}

func TestGraceIsTheOneThatWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.pod("web", 100)
	request, five := requestFor(pod), int64(5)
	request.GraceSeconds = &five
	expect(t, evictorFor(t, unlimited()).Evict(t.Context(), request), evict.Evicted)
	evicted, err := w.client.CoreV1().Pods(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	w.must(err)
	if evicted.DeletionGracePeriodSeconds == nil || *evicted.DeletionGracePeriodSeconds != 5 {
		t.Errorf("grace %v, want 5", evicted.DeletionGracePeriodSeconds)
	}
	if !hasCondition(evicted, corev1.DisruptionTarget, "EvictionByEvictionAPI") {
		t.Errorf("the API server did not mark the pod: %+v", evicted.Status.Conditions)
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

// A budget whose status is behind its spec answers 429 with Retry-After: 10, which
// client-go would otherwise wait for ten times inside the call.
func TestBudgetInFluxAnswers429AtOnceIsBudgetPending(t *testing.T) {
	w := newWorld(t) // not parallel: it stops the controller manager
	pod := w.pod("web", 100)
	b := w.budget("web", "web")
	w.must(shared.StopProcess(t.Context(), "kube-controller-manager"))
	defer func() { w.must(shared.StartProcess(context.WithoutCancel(t.Context()), "kube-controller-manager")) }()
	two := intstr.FromInt32(2)
	b.Spec.MinAvailable = &two
	_, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Update(t.Context(), b, metav1.UpdateOptions{})
	w.must(err)
	config, seen := listening(unlimited())
	got := evictorFor(t, config).Evict(t.Context(), requestFor(pod))
	expect(t, got, evict.BudgetPending, "still being processed")
	expectCode(t, seen, http.StatusTooManyRequests)
	if got.RetryAfter != 10*time.Second {
		t.Errorf("retry after %v, want what the server asked for: 10 s", got.RetryAfter)
	}
}

// cut breaks the connection after the API server has answered: the eviction
// happened and nobody heard of it.
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

func TestUnheardAnswerIsSettledByReadingThePodAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.pod("web", 100)
	config := unlimited()
	config.Wrap(transport.WrapperFunc(func(rt http.RoundTripper) http.RoundTripper { return &cut{inner: rt} }))
	expect(t, evictorFor(t, config).Evict(t.Context(), requestFor(pod)), evict.Evicted, "reading the pod again settled it")
}

func TestServerThatIsNotThereIsUnknown(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	got := evictorFor(t, config).Evict(t.Context(), evict.Request{Namespace: "n", Name: "p", UID: "u"})
	expect(t, got, evict.Unconfirmed, "refused")
}
