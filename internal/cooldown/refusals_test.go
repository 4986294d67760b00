package cooldown

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

func at(offset time.Duration) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(offset)
}

func never(string) bool { return false }

// blocked is the refusal of a budget of the namespace shop.
func blocked(budget string) evict.Result {
	return evict.Result{Outcome: evict.BlockedByBudget, Budget: budget}
}

// note lets a tracker learn an answer about a pod.
func note(t *Tracker, pod *rank.Pod, r evict.Result, now time.Time) { t.answered(pod, &r, now) }

// serverUntil returns until when the API server is in back-off; the zero time when it is not.
func serverUntil(b *Tracker, now time.Time) time.Time {
	r, _ := b.Server(now)
	return r.Until
}

// expectWaits fails the test unless these pods wait, and no others of a to e.
func expectWaits(t *testing.T, b *Tracker, now time.Time, want string) {
	t.Helper()
	got := ""
	for _, uid := range []string{"a", "b", "c", "d", "e"} {
		pod := podOf(uid)
		if uid == "e" {
			pod.Namespace = "office"
		}
		if _, waits := b.refusal(pod, now); waits {
			got += uid
		}
	}
	if got != want {
		t.Errorf("%q wait, want %q", got, want)
	}
}

func TestPodsOfABudgetRestTogether(t *testing.T) {
	t.Parallel()
	backoff := New(Limits{}, noJitter)
	for _, uid := range []string{"a", "b", "c"} { // three refusals of one decision are one
		note(backoff, podOf(uid), blocked("web"), at(0))
	}
	note(backoff, podOf("d"), blocked("db"), at(5*time.Second))
	other := &rank.Pod{UID: "e", Namespace: "office", Ready: true}
	note(backoff, other, blocked("web"), at(5*time.Second))
	expectWaits(t, backoff, at(10*time.Second-1), "abcde")
	expectWaits(t, backoff, at(10*time.Second), "de")

	note(backoff, podOf("b"), blocked("web"), at(10*time.Second)) // one is tried for all
	expectWaits(t, backoff, at(30*time.Second-1), "abc")
	if blocked, misconfigured := backoff.Waiting(at(30*time.Second - 1)); blocked != 3 || misconfigured != 0 {
		t.Errorf("%d are blocked and %d misconfigured, want all three blocked", blocked, misconfigured)
	}
	note(backoff, podOf("several"), evict.Result{Outcome: evict.Misconfigured}, at(0))
	if blocked, misconfigured := backoff.Waiting(at(30*time.Second - 1)); blocked != 3 || misconfigured != 1 {
		t.Errorf("%d are blocked and %d misconfigured, want three and one", blocked, misconfigured)
	}
	backoff.Forget(func(uid string) bool { return uid != "several" })
	expectWaits(t, backoff, at(30*time.Second), "")

	note(backoff, podOf("a"), blocked("web"), at(30*time.Second))
	note(backoff, podOf("b"), evict.Result{Outcome: evict.Deleted}, at(31*time.Second))
	expectWaits(t, backoff, at(31*time.Second), "ac") // the budget has no more room than before
	note(backoff, podOf("a"), evict.Result{Outcome: evict.Evicted}, at(32*time.Second))
	expectWaits(t, backoff, at(32*time.Second), "") // and now it has
}

// TestPodRestsWithABudgetNoLongerThanItIsItsOwn: an old answer does not keep a pod in back-off for
// long.
func TestPodRestsWithABudgetNoLongerThanItIsItsOwn(t *testing.T) {
	t.Parallel()
	backoff, unready := New(Limits{}, noJitter), podOf("a")
	unready.Ready = false
	note(backoff, podOf("a"), blocked("web"), at(0))
	note(backoff, podOf("b"), blocked("web"), at(0))
	if _, waits := backoff.refusal(unready, at(1)); waits || backoff.SharedPDB(unready, at(1)) != "" {
		t.Error("a pod that is not ready any more rests with the ready ones")
	}
	note(backoff, unready, blocked("web"), at(time.Second))
	if _, waits := backoff.refusal(unready, at(11*time.Second-1)); !waits {
		t.Error("a pod that is not ready does not back off by itself")
	}
	for after := time.Duration(0); after < 10*time.Minute; after += time.Minute {
		note(backoff, podOf("c"), blocked("web"), at(after))
	}
	expectWaits(t, backoff, at(10*time.Minute-1), "bc")
	expectWaits(t, backoff, at(10*time.Minute), "c")
	if with := backoff.SharedPDB(podOf("b"), at(10*time.Minute)); with != "" {
		t.Errorf("b is said to rest with %s", with)
	}
}

func TestBudgetIsForgottenWithItsPods(t *testing.T) {
	t.Parallel()
	backoff := New(Limits{}, noJitter)
	note(backoff, podOf("a"), blocked("web"), at(0))
	note(backoff, podOf("a"), blocked("web"), at(10*time.Second))
	backoff.Forget(never)
	note(backoff, podOf("b"), blocked("web"), at(time.Minute))
	expectWaits(t, backoff, at(70*time.Second-1), "b")
	expectWaits(t, backoff, at(70*time.Second), "")
}

// What was refused again and again on Monday is no measure for Friday.
func TestRefusalsOfLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	backoff, now := New(Limits{}, noJitter), at(0)
	for range 6 { // 10, 20, 40, 80, 160 s, 5 min
		note(backoff, podOf("a"), blocked("web"), now)
		now = now.Add(5 * time.Minute)
	}
	for _, since := range []struct {
		pause, rest time.Duration
	}{
		{5*time.Minute - 1, 5 * time.Minute},
		{5 * time.Minute, 10 * time.Second},
	} {
		now = now.Add(since.pause)
		note(backoff, podOf("a"), blocked("web"), now)
		now = now.Add(since.rest)
		expectWaits(t, backoff, now.Add(-1), "a")
		expectWaits(t, backoff, now, "")
	}
}

// TestPodWithoutAnAnswerBacksOff: a pod whose requests alone get no response must not keep the
// others from being tried; a connection that is broken for all pods is no fault of the pod.
func TestPodWithoutAnAnswerBacksOff(t *testing.T) {
	t.Parallel()
	doubtful := evict.Result{Outcome: evict.Unconfirmed, Stays: true}
	backoff, now := New(Limits{}, noJitter), at(0)
	for i, want := range []string{"", "", "a"} {
		note(backoff, podOf("a"), doubtful, now)
		expectWaits(t, backoff, now, want)
		if i == 1 {
			backoff.Observe(&decide.Decision{}, &decide.Report{Unread: true}, now)
			note(backoff, podOf("a"), evict.Result{Outcome: evict.Unconfirmed}, now)
			expectWaits(t, backoff, now, "")
		}
	}
	expectWaits(t, backoff, at(time.Minute), "")
	note(backoff, podOf("a"), doubtful, at(time.Minute))
	expectWaits(t, backoff, at(3*time.Minute-1), "a")
	note(backoff, podOf("a"), evict.Result{Outcome: evict.Gone}, at(3*time.Minute))
	note(backoff, podOf("a"), doubtful, at(3*time.Minute))
	expectWaits(t, backoff, at(3*time.Minute), "")

	doubtful.NoResponse = true
	for after := time.Duration(0); after < 30*time.Second; after += time.Second {
		note(backoff, podOf("b"), doubtful, at(after))
		expectWaits(t, backoff, at(after), "")
	}
	note(backoff, podOf("b"), doubtful, at(30*time.Second))
	expectWaits(t, backoff, at(30*time.Second), "b")
}

// TestWithdrawnRequestLetsTheServerNotRest: a request that the caller has withdrawn does not put
// the API server in back-off.
func TestWithdrawnRequestLetsTheServerNotRest(t *testing.T) {
	t.Parallel()
	backoff := New(Limits{}, func() float64 { return 0 })
	note(backoff, podOf("a"), evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Withdrawn: true}, at(0))
	if until := serverUntil(backoff, at(0)); !until.IsZero() {
		t.Errorf("the API server rests until %v", until)
	}
}

func noJitter() float64 { return 0 }

// podOf is a ready pod of the namespace shop.
func podOf(uid string) *rank.Pod { return &rank.Pod{UID: uid, Namespace: "shop", Ready: true} }

func TestBackoffGrowsToItsLongestAndEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcome evict.Outcome
		retry   time.Duration
		want    []time.Duration
	}{
		{evict.BlockedByBudget, 0, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}},
		{evict.BudgetPending, 10 * time.Second, []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second, 16 * time.Second}},
		{evict.Denied, 0, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute}},
		{evict.BudgetPending, time.Hour, []time.Duration{32 * time.Second, 32 * time.Second}},
		{evict.Misconfigured, 0, []time.Duration{time.Minute}},
	} {
		backoff, now := New(Limits{}, noJitter), at(0)
		for i, want := range test.want {
			note(backoff, podOf("a"), evict.Result{Outcome: test.outcome, RetryAfter: test.retry}, now)
			if last, waits := backoff.refusal(podOf("a"), now.Add(want-1)); !waits || last.Why != test.outcome {
				t.Errorf("%v, refusal %d: does not wait %v", test.outcome, i+1, want)
			}
			now = now.Add(want)
			if _, waits := backoff.refusal(podOf("a"), now); waits {
				t.Errorf("%v, refusal %d: still waits after %v", test.outcome, i+1, want)
			}
		}
		if serverUntil(backoff, now.Add(-1)) != (time.Time{}) {
			t.Errorf("%v: a refusal of one pod keeps all requests back", test.outcome)
		}
	}
}

func TestBackoffOfTheServer(t *testing.T) {
	t.Parallel()
	backoff := New(Limits{}, noJitter)
	note(backoff, podOf("a"), evict.Result{Outcome: evict.Throttled, RetryAfter: 3 * time.Second}, at(0))
	if until := serverUntil(backoff, at(time.Second)); !until.Equal(at(3 * time.Second)) {
		t.Errorf("waits until %v, want what the server requested", until)
	}
	note(backoff, podOf("b"), evict.Result{Outcome: evict.Evicted}, at(4*time.Second))
	note(backoff, podOf("b"), evict.Result{Outcome: evict.Throttled}, at(5*time.Second))
	if until := serverUntil(backoff, at(5*time.Second)); !until.Equal(at(6 * time.Second)) {
		t.Errorf("waits until %v: an answer did not end the row of failures", until)
	}
	note(backoff, podOf("b"), evict.Result{Outcome: evict.Throttled, RetryAfter: time.Hour}, at(time.Minute))
	if until := serverUntil(backoff, at(time.Minute)); !until.Equal(at(time.Minute + 32*time.Second)) {
		t.Errorf("waits until %v after an hour was requested, want as long as the API server ever requests", until)
	}
}

func TestBackoffStretchesAtRandom(t *testing.T) {
	t.Parallel()
	backoff := New(Limits{}, func() float64 { return 0.5 })
	note(backoff, podOf("a"), evict.Result{Outcome: evict.BlockedByBudget}, at(0))
	if _, waits := backoff.refusal(podOf("a"), at(10900*time.Millisecond)); !waits {
		t.Error("no jitter was added to 10 s")
	}
	if _, waits := backoff.refusal(podOf("a"), at(11*time.Second)); waits {
		t.Error("more than the jitter was added")
	}
}

func TestBackoffForgets(t *testing.T) {
	t.Parallel()
	backoff := New(Limits{}, noJitter)
	note(backoff, podOf("a"), evict.Result{Outcome: evict.Denied}, at(0))
	backoff.Forget(never)
	if _, waits := backoff.refusal(podOf("a"), at(0)); waits {
		t.Error("a pod that has gone is remembered")
	}
}

func TestBackoffRemembersTheBudget(t *testing.T) {
	t.Parallel()
	backoff := New(Limits{}, noJitter)
	note(backoff, podOf("a"), evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"}, at(0))
	note(backoff, podOf("b"), evict.Result{Outcome: evict.Denied}, at(0))
	a, _ := backoff.refusal(podOf("a"), at(0))
	if b, _ := backoff.refusal(podOf("b"), at(0)); a.PDB != "web" || b.PDB != "" {
		t.Errorf("budgets %q and %q, want web and none", a.PDB, b.PDB)
	}
	note(backoff, podOf("a"), evict.Result{Outcome: evict.Deleted}, at(time.Minute))
	if got, _ := backoff.refusal(podOf("a"), at(time.Minute)); got.PDB != "" {
		t.Errorf("budget %q of a pod that was deleted", got.PDB)
	}
}
