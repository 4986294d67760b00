package evict_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// blocked is the refusal of a budget of the namespace shop.
func blocked(budget string) evict.Result {
	return evict.Result{Outcome: evict.BlockedByBudget, Budget: budget}
}

// expectWaits fails the test unless these pods wait, and no others of a to e.
func expectWaits(t *testing.T, b *evict.Backoff, now time.Time, want string) {
	t.Helper()
	got := ""
	for _, uid := range []string{"a", "b", "c", "d", "e"} {
		if _, waits := b.Waits(podOf(uid), now); waits {
			got += uid
		}
	}
	if got != want {
		t.Errorf("%q wait, want %q", got, want)
	}
}

func TestPodsOfABudgetRestTogether(t *testing.T) {
	t.Parallel()
	backoff := evict.NewBackoff(noJitter)
	for _, uid := range []string{"a", "b", "c"} { // three refusals of one decision are one
		backoff.Note(podOf(uid), blocked("web"), at(0))
	}
	backoff.Note(podOf("d"), blocked("db"), at(5*time.Second))
	other := evict.Pod{UID: "e", Namespace: "office", Ready: true}
	backoff.Note(other, blocked("web"), at(5*time.Second))
	expectWaits(t, backoff, at(10*time.Second-1), "abcde")
	expectWaits(t, backoff, at(10*time.Second), "de")

	backoff.Note(podOf("b"), blocked("web"), at(10*time.Second)) // one asks for all
	expectWaits(t, backoff, at(30*time.Second-1), "abc")
	if blocked, misconfigured := backoff.Blocked(at(30*time.Second - 1)); blocked != 3 || misconfigured != 0 {
		t.Errorf("%d are blocked and %d misconfigured, want all three blocked", blocked, misconfigured)
	}
	backoff.Note(podOf("several"), evict.Result{Outcome: evict.Misconfigured}, at(0))
	if blocked, misconfigured := backoff.Blocked(at(30*time.Second - 1)); blocked != 3 || misconfigured != 1 {
		t.Errorf("%d are blocked and %d misconfigured, want three and one", blocked, misconfigured)
	}
	backoff.Forget(func(uid string) bool { return uid != "several" })
	expectWaits(t, backoff, at(30*time.Second), "")

	backoff.Note(podOf("a"), blocked("web"), at(30*time.Second))
	backoff.Note(podOf("b"), evict.Result{Outcome: evict.Deleted}, at(31*time.Second))
	expectWaits(t, backoff, at(31*time.Second), "ac") // the budget has no more room than before
	backoff.Note(podOf("a"), evict.Result{Outcome: evict.Evicted}, at(32*time.Second))
	expectWaits(t, backoff, at(32*time.Second), "") // and now it has
}

// Nobody may be kept for long by what was true once.
func TestPodRestsWithABudgetNoLongerThanItIsItsOwn(t *testing.T) {
	t.Parallel()
	backoff, unready := evict.NewBackoff(noJitter), podOf("a")
	unready.Ready = false
	backoff.Note(podOf("a"), blocked("web"), at(0))
	backoff.Note(podOf("b"), blocked("web"), at(0))
	if _, waits := backoff.Waits(unready, at(1)); waits || backoff.KeptWith(unready, at(1)) != "" {
		t.Error("a pod that is not ready any more rests with the ready ones")
	}
	backoff.Note(unready, blocked("web"), at(time.Second))
	if _, waits := backoff.Waits(unready, at(11*time.Second-1)); !waits {
		t.Error("a pod that is not ready does not back off by itself")
	}
	for after := time.Duration(0); after < 10*time.Minute; after += time.Minute {
		backoff.Note(podOf("c"), blocked("web"), at(after))
	}
	expectWaits(t, backoff, at(10*time.Minute-1), "bc")
	expectWaits(t, backoff, at(10*time.Minute), "c")
	if with := backoff.KeptWith(podOf("b"), at(10*time.Minute)); with != "" {
		t.Errorf("b is said to rest with %s", with)
	}
}

func TestBudgetIsForgottenWithItsPods(t *testing.T) {
	t.Parallel()
	backoff := evict.NewBackoff(noJitter)
	backoff.Note(podOf("a"), blocked("web"), at(0))
	backoff.Note(podOf("a"), blocked("web"), at(10*time.Second))
	backoff.Forget(nobody)
	backoff.Note(podOf("b"), blocked("web"), at(time.Minute))
	expectWaits(t, backoff, at(70*time.Second-1), "b")
	expectWaits(t, backoff, at(70*time.Second), "")
}

// What was refused again and again on Monday is no measure for Friday.
func TestRefusalsOfLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	backoff, now := evict.NewBackoff(noJitter), at(0)
	for range 6 { // 10, 20, 40, 80, 160 s, 5 min
		backoff.Note(podOf("a"), blocked("web"), now)
		now = now.Add(5 * time.Minute)
	}
	for _, since := range []struct {
		pause, rest time.Duration
	}{
		{5*time.Minute - 1, 5 * time.Minute},
		{5 * time.Minute, 10 * time.Second},
	} {
		now = now.Add(since.pause)
		backoff.Note(podOf("a"), blocked("web"), now)
		now = now.Add(since.rest)
		expectWaits(t, backoff, now.Add(-1), "a")
		expectWaits(t, backoff, now, "")
	}
}

// A pod whose requests alone are never answered must not keep the others from being asked
// for; a connection that is broken for all is no fault of the pod.
func TestPodWithoutAnAnswerBacksOff(t *testing.T) {
	t.Parallel()
	unheard := evict.Result{Outcome: evict.Unconfirmed, Stays: true}
	backoff, now := evict.NewBackoff(noJitter), at(0)
	for i, want := range []string{"", "", "a"} {
		backoff.Note(podOf("a"), unheard, now)
		expectWaits(t, backoff, now, want)
		if i == 1 {
			backoff.NoteUnread(now)
			backoff.Note(podOf("a"), evict.Result{Outcome: evict.Unconfirmed}, now)
			expectWaits(t, backoff, now, "")
		}
	}
	expectWaits(t, backoff, at(time.Minute), "")
	backoff.Note(podOf("a"), unheard, at(time.Minute))
	expectWaits(t, backoff, at(3*time.Minute-1), "a")
	backoff.Note(podOf("a"), evict.Result{Outcome: evict.Gone}, at(3*time.Minute))
	backoff.Note(podOf("a"), unheard, at(3*time.Minute))
	expectWaits(t, backoff, at(3*time.Minute), "")

	unheard.Silent = true
	for after := time.Duration(0); after < 30*time.Second; after += time.Second {
		backoff.Note(podOf("b"), unheard, at(after))
		expectWaits(t, backoff, at(after), "")
	}
	backoff.Note(podOf("b"), unheard, at(30*time.Second))
	expectWaits(t, backoff, at(30*time.Second), "b")
}

// A request that the caller has withdrawn says nothing of the API server.
func TestWithdrawnRequestLetsTheServerNotRest(t *testing.T) {
	t.Parallel()
	backoff := evict.NewBackoff(func() float64 { return 0 })
	backoff.Note(podOf("a"), evict.Result{Outcome: evict.Unconfirmed, Silent: true, Late: true, Withdrawn: true}, at(0))
	if until := backoff.ServerWaits(at(0)); !until.IsZero() {
		t.Errorf("the API server rests until %v", until)
	}
}
