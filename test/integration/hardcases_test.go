package integration

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The cases that other evictors are known to handle wrongly, with evictd as a process.

// expectVictims waits for the end of the pressure and fails the test unless exactly these
// pods were evicted.
func (s *scene) expectVictims(want ...string) {
	s.t.Helper()
	s.within("the pressure is over and no pod is in flight", s.relieved)
	s.endure(2 * time.Second) // time for one more victim
	if got := s.hand.taken(); !slices.Equal(got, want) {
		s.t.Errorf("evicted %v, want %v", got, want)
	}
}

// counted returns how many requests had the outcome.
func (s *scene) counted(outcome string) (n float64) {
	s.t.Helper()
	s.within("evictd tells how many requests were "+outcome, func() (told bool) {
		n, told = s.daemon.metric("evictd_evictions_total", "outcome", outcome)
		return told
	})
	return n
}

// told waits for an Event on a pod of the namespace.
func (s *scene) told(pod, reason string) {
	s.t.Helper()
	s.until(pod+" has the Event "+reason, func(ctx context.Context) bool { return s.event(ctx, pod, reason) != "" })
}

func TestHardCaseCrashLoopingPodUnderABudget(t *testing.T) {
	t.Parallel()
	for policy, want := range map[policyv1.UnhealthyPodEvictionPolicyType]string{
		policyv1.AlwaysAllow: "large", policyv1.IfHealthyBudget: "small",
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.crashLoops("large")
			s.budgetOfTheBroken("large", 1, policy)
			s.start()
			s.within("evictd is ready", s.ready)
			s.pressed()
			s.expectVictims(want)
			if blocked := s.counted("BlockedByBudget"); (blocked > 0) != (want == "small") {
				t.Errorf("%v requests were blocked by the budget", blocked)
			}
		})
	}
}

// crashLoops gives a pod the status that the kubelet reports for a crash loop.
func (s *scene) crashLoops(name string) {
	s.t.Helper()
	pod, err := s.client.CoreV1().Pods(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	s.must(err)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "c", RestartCount: 7, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
	_, err = s.client.CoreV1().Pods(s.namespace).UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{})
	s.must(err)
}

// budgetOfTheBroken creates a budget over that many pods, one of which is not healthy, and
// waits until they were counted. All of them must stay.
func (s *scene) budgetOfTheBroken(app string, pods int32, policy policyv1.UnhealthyPodEvictionPolicyType) {
	s.t.Helper()
	minimum := intstr.FromInt32(pods)
	b, err := s.client.PolicyV1().PodDisruptionBudgets(s.namespace).Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &minimum, UnhealthyPodEvictionPolicy: &policy,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.until("the disruption controller has counted the broken pod", func(ctx context.Context) bool {
		b, err = s.client.PolicyV1().PodDisruptionBudgets(s.namespace).Get(ctx, app, metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DesiredHealthy == pods && b.Status.CurrentHealthy == pods-1
	})
}

// The pod has a second to end and does not. It is in flight, and evictd counts on it, until
// its deadline, 15 s after its grace period. Then it is stuck, and the next pod is evicted.
func TestHardCasePodThatIgnoresSIGTERMFor300s(t *testing.T) {
	t.Parallel()
	const deadline = 16 * time.Second
	s := newScene(t)
	s.hand.takes(300 * time.Second)
	s.startWith(usual + "evictionHardPodGracePeriod: 1\n")
	s.within("evictd is ready", s.ready)
	began := time.Now()
	s.pressed()
	s.within("a pod was evicted", func() bool { return len(s.hand.taken()) > 0 })
	s.within("it is counted", func() bool {
		leaving, told := s.daemon.metric("evictd_victims_in_flight")
		return told && leaving == 1
	})
	if stuck, _ := s.daemon.metric("evictd_victims_stuck"); stuck != 0 {
		t.Errorf("%v victims are stuck before the deadline", stuck)
	}
	s.until("the next one is evicted", func(context.Context) bool { return len(s.hand.taken()) > 1 })
	if after := time.Since(began); after < deadline {
		t.Errorf("the second victim was evicted %v after the pressure began, want no sooner than the first one's deadline, %v", after, deadline)
	}
	s.within("the first is stuck", func() bool {
		stuck, _ := s.daemon.metric("evictd_victims_stuck")
		return stuck == 1
	})
	if got := s.hand.taken(); !slices.Equal(got, []string{"large", "small"}) || !s.terminating("large") {
		t.Errorf("evicted %v, want the large pod, which is still there, and then the small one", got)
	}
}

// A Deployment that sets spec.nodeName creates its pod again at once, bypassing the
// scheduler, on the node under pressure.
func TestHardCaseDeploymentPinnedToTheNode(t *testing.T) {
	t.Parallel()
	t.Run("is protected", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.pin("pinned")
		s.startWith("evictionHard: {memory.available: 500Mi}\n")
		s.within("evictd is ready", s.ready)
		s.pressed()
		s.within("evictd finds no candidate", func() bool {
			n, _ := s.daemon.metric("evictd_holds_total", "hold", "NoCandidates")
			return n > 0
		})
		s.endure(2 * time.Second)
		if got := s.hand.taken(); len(got) != 0 {
			t.Errorf("evicted %v, want no pod", got)
		}
	})
	t.Run("is evicted no more often than its owner's limit", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		first := s.pin("pinned")
		s.startWith("evictionHard: {memory.available: 500Mi}\nprotect: {pinnedPods: false, withinRequests: never}\nlimits: {evictionsPerMinute: 60, perOwnerPerHour: 1}\n")
		s.within("evictd is ready", s.ready)
		s.pressed()
		s.within("the pod was evicted", func() bool { return slices.Equal(s.hand.taken(), []string{first.Name}) })
		s.until("its controller has made it again, on the same node", func(ctx context.Context) bool {
			pods := s.runningPods(ctx, "pinned")
			return len(pods) == 1 && pods[0].UID != first.UID && pods[0].Spec.NodeName == s.node
		})
		s.endure(5 * time.Second) // the shortage is the same as before
		if pressed, _ := s.daemon.metric("evictd_pressure", "signal", "memory.available", "kind", "Hard"); pressed != 1 {
			t.Error("the node is not short any more: the test shows nothing")
		}
		if got := s.hand.taken(); !slices.Equal(got, []string{first.Name}) {
			t.Errorf("evicted %v, want %s once", got, first.Name)
		}
	})
}

// pin creates a Deployment whose pods are on the scene's node, and acts as their kubelet
// until the end of the test: they run, and use a GiB. It returns the first.
func (s *scene) pin(name string) *corev1.Pod {
	s.t.Helper()
	labels := map[string]string{"app": name}
	_, err := s.client.AppsV1().Deployments(s.namespace).Create(s.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{NodeName: s.node, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			s.runPods(ctx, name)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
	var pods []corev1.Pod
	s.until("the first pod of "+name+" runs", func(ctx context.Context) bool {
		pods = s.runningPods(ctx, name)
		return len(pods) == 1
	})
	return &pods[0]
}

// runPods sets the node's new pods to running.
func (s *scene) runPods(ctx context.Context, app string) {
	list, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return // the test ends
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		s.host.group(groupOf(pod), 1024)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, _ = s.client.CoreV1().Pods(s.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}) // or the next time
	}
}

func (s *scene) runningPods(ctx context.Context, app string) []corev1.Pod {
	list, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil
	})
}

func TestHardCaseTwoBudgetsOnOnePod(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.budget("one", "large")
	s.budget("two", "large")
	s.start()
	s.within("evictd is ready", s.ready)
	s.pressed()
	s.expectVictims("small")
	if s.counted("Misconfigured") == 0 || s.terminating("large") {
		t.Errorf("%v requests were Misconfigured, want one, and the large pod there", s.counted("Misconfigured"))
	}
	s.told("large", "EvictionMisconfigured")
}

// TestDeniedPodIsRetriedAfterAWhile in internal/agent tests the back-off of a denied
// pod; here another evictd, which knows of no denial, sends the request.
func TestHardCaseWebhookThatDeniesAndThenAllows(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	hook := newWebhook(s.world)
	hook.deny(http.StatusForbidden, "it is payday", "small")
	s.start()
	s.within("evictd is ready", s.ready)
	s.pressed()
	s.expectVictims("small")
	if _, page := s.daemon.get("/debug/decisions"); !strings.Contains(page, "it is payday") || s.counted("Denied") != 1 {
		t.Errorf("%v requests were Denied, want one, and the webhook's words in the decision:\n%s", s.counted("Denied"), page)
	}
	s.told("large", "EvictionDenied")
	hook.allow()
	asked := hook.count("large")
	s.pressed()
	s.endure(3 * time.Second)
	if again := hook.count("large") - asked; again != 0 || s.terminating("large") {
		t.Errorf("the pod was evicted %d times within its back-off", again)
	}
	s.daemon.stop()
	s.start()
	s.within("evictd is ready again", s.ready)
	s.expectVictims("small", "large")
}

// With any code of one pod's webhook, including KubeVirt's 429, and when it cannot be
// called, the next candidate is evicted in the same decision.
func TestHardCaseWebhookOfOnePodWithAnyCode(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{
		0, http.StatusTooManyRequests, http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable,
	} {
		t.Run(strconv.Itoa(int(code)), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			hook := newWebhook(s.world)
			if code == 0 {
				hook.fail("small")
			} else {
				hook.deny(code, "Eviction triggered evacuation of VMI", "small")
			}
			s.start()
			s.within("evictd is ready", s.ready)
			s.pressed()
			s.expectVictims("small")
			if s.counted("Denied") != 1 || s.counted("BudgetPending")+s.counted("Throttled")+s.counted("Unknown") != 0 {
				t.Errorf("%v requests were Denied, want one and no other refusal", s.counted("Denied"))
			}
			s.told("large", "EvictionDenied")
		})
	}
}

// For one pod, the API server repeatedly neither accepts nor rejects the request.
func TestHardCasePodWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.within("evictd is ready", s.ready)
	s.proxy.instead(func(w http.ResponseWriter, r *http.Request) bool {
		return isEviction(r) && strings.Contains(r.URL.Path, "/large/") && refuse(w, http.StatusForbidden)
	})
	s.pressed()
	s.until("the small pod's turn comes", func(context.Context) bool { return len(s.hand.taken()) > 0 })
	s.expectVictims("small")
	if s.counted("Unknown") != 3 {
		t.Errorf("%v requests were Unknown, want three before the next pod had its turn", s.counted("Unknown"))
	}
}

// An exhausted budget is tried once for its ready pods. Its broken pod is evicted on its
// own, which AlwaysAllow permits.
func TestHardCaseManyPodsOfOneBudget(t *testing.T) {
	t.Parallel()
	for policy, want := range map[policyv1.UnhealthyPodEvictionPolicyType]struct {
		victim  string
		blocked float64
	}{
		policyv1.IfHealthyBudget: {"small", 2}, policyv1.AlwaysAllow: {"broken", 1},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			for name, holds := range map[string]int64{"large-2": 950, "large-3": 950, "broken": 900} {
				s.another(name, "large")
				pod, err := s.client.CoreV1().Pods(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
				s.must(err)
				s.host.group(groupOf(pod), holds)
				s.hand.holds(name, holds)
			}
			s.crashLoops("broken")
			s.budgetOfTheBroken("large", 4, policy)
			s.start()
			s.within("evictd is ready", s.ready)
			s.pressed()
			s.expectVictims(want.victim)
			if blocked := s.counted("BlockedByBudget"); blocked != want.blocked {
				t.Errorf("%v requests were blocked by the budget, want %v", blocked, want.blocked)
			}
		})
	}
}

// While a slow webhook delays the first candidate, another client deletes a pod that is
// large enough: no other pod is evicted.
func TestHardCaseWebhookThinksWhileAnotherPodLeaves(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.hand.takes(time.Hour)
	s.hand.held["drained"] = 600
	drained := s.pod("drained", 100)
	s.host.group(groupOf(drained), 600)
	hook := newWebhook(s.world)
	s.start()
	s.within("evictd is ready", s.ready)
	hook.deny(http.StatusForbidden, "it is payday", "small", "drained")
	hook.hold(t, "large")
	s.pressed()
	s.within("the webhook was called", func() bool { return hook.count("large") > 0 })
	s.must(s.client.CoreV1().Pods(s.namespace).Delete(t.Context(), drained.Name, metav1.DeleteOptions{}))
	s.within("evictd counts the pod that leaves", func() bool {
		leaving, _ := s.daemon.metric("evictd_victims_in_flight")
		return leaving == 1
	})
	hook.release()
	s.hand.takes(0)
	s.expectVictims("drained")
	if asked := hook.count("small"); asked != 0 {
		t.Errorf("%d evictions of the small pod were requested", asked)
	}
	if _, page := s.daemon.get("/debug/decisions"); !strings.Contains(page, "no further request was sent") {
		t.Errorf("no decision says why the plan ended:\n%s", page)
	}
}
