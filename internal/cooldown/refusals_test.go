package cooldown

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

func at(offset time.Duration) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(offset)
}

// blocked is the refusal of a budget of the namespace shop.
func blocked(budget string) evict.Result {
	return evict.Result{Outcome: evict.BlockedByBudget, Budget: budget}
}

// note lets a tracker learn an answer about a pod.
func note(t *Tracker, pod *rank.Pod, r evict.Result, now time.Time) { t.answered(pod, &r, now) }

// step is an answer about a pod, "" for none, at a time, and which of the pods a to e wait after it.
type step struct {
	after  time.Duration
	pod    string
	answer evict.Result
	waits  string
}

// play lets a tracker learn one answer after the other.
func play(t *testing.T, b *Tracker, steps ...step) *Tracker {
	t.Helper()
	for _, s := range steps {
		if s.pod != "" {
			note(b, podOf(s.pod), s.answer, at(s.after))
		}
		got := ""
		for _, uid := range []string{"a", "b", "c", "d", "e"} {
			if _, waits := b.refusal(podOf(uid), at(s.after)); waits {
				got += uid
			}
		}
		if got != s.waits {
			t.Errorf("after %v (%s %s) %q wait, want %q", s.after, s.pod, s.answer.Outcome, got, s.waits)
		}
	}
	return b
}

func TestPodsOfABudgetRestTogether(t *testing.T) {
	t.Parallel()
	web := blocked("web")
	backoff := play(
		t, New(config.Limits{}, noJitter),
		step{0, "a", web, "a"}, // three refusals of one decision are one
		step{0, "b", web, "ab"},
		step{0, "c", web, "abc"},
		step{5 * time.Second, "d", blocked("db"), "abcd"},
		step{5 * time.Second, "e", web, "abcde"}, // of another namespace
		step{10*time.Second - 1, "", web, "abcde"},
		step{10 * time.Second, "", web, "de"},
		step{10 * time.Second, "b", web, "abcde"}, // one is tried for all
		step{30*time.Second - 1, "", web, "abc"},
	)
	waiting := func(gone string, blocked, misconfigured int) {
		t.Helper()
		if b, m := backoff.Waiting(at(30*time.Second-1), func(uid string) bool { return uid != gone }); b != blocked || m != misconfigured {
			t.Errorf("%d are blocked and %d misconfigured, want %d and %d", b, m, blocked, misconfigured)
		}
	}
	waiting("", 3, 0)
	note(backoff, podOf("several"), evict.Result{Outcome: evict.Misconfigured}, at(0))
	waiting("", 3, 1)
	waiting("several", 3, 0)
	play(
		t, backoff,
		step{30 * time.Second, "", web, ""},
		step{30 * time.Second, "a", web, "abc"},
		step{31 * time.Second, "b", evict.Result{Outcome: evict.Deleted}, "ac"}, // the budget has no more room than before
		step{32 * time.Second, "a", evict.Result{Outcome: evict.Evicted}, ""},   // and now it has
	)
}

// TestPodRestsWithABudgetNoLongerThanItIsItsOwn: an old answer does not keep a pod in back-off for
// long.
func TestPodRestsWithABudgetNoLongerThanItIsItsOwn(t *testing.T) {
	t.Parallel()
	unready := podOf("a")
	unready.Ready = false
	backoff := play(t, New(config.Limits{}, noJitter), step{0, "a", blocked("web"), "a"}, step{0, "b", blocked("web"), "ab"})
	if w, waits := backoff.refusal(unready, at(1)); waits || w.PDB != "" {
		t.Error("a pod that is not ready any more rests with the ready ones")
	}
	note(backoff, unready, blocked("web"), at(time.Second))
	if _, waits := backoff.refusal(unready, at(11*time.Second-1)); !waits {
		t.Error("a pod that is not ready does not back off by itself")
	}
	for after := time.Duration(0); after < 10*time.Minute; after += time.Minute {
		note(backoff, podOf("c"), blocked("web"), at(after))
	}
	play(t, backoff, step{10*time.Minute - 1, "", evict.Result{}, "bc"}, step{10 * time.Minute, "", evict.Result{}, "c"})
	if w, _ := backoff.refusal(podOf("b"), at(10*time.Minute)); w.PDB != "" {
		t.Errorf("b is said to rest with %s", w.PDB)
	}
}

// What waits no more is forgotten ten minutes later, and what a pod waits for with the pod; not that its budget refused.
func TestRefusalsAreForgotten(t *testing.T) {
	t.Parallel()
	backoff := play(t, New(config.Limits{}, noJitter), step{0, "a", blocked("web"), "a"}, step{0, "c", evict.Result{Outcome: evict.Denied}, "ac"})
	for _, test := range []struct {
		after   time.Duration
		present bool
		want    int
	}{
		{time.Second, true, 3},
		{time.Second, false, 1},
		{10 * time.Minute, true, 3},
		{11 * time.Minute, true, 1},
		{trust + 10*time.Minute - 1, true, 1},
		{trust + 10*time.Minute, true, 0},
	} {
		next := New(config.Limits{}, noJitter)
		next.Restore(backoff.Export(), at(0))
		next.Observe(&decide.Report{}, at(test.after))
		next.Waiting(at(test.after), func(string) bool { return test.present })
		if got := next.Export().Waits; len(got) != test.want {
			t.Errorf("after %v, present %t: %v are remembered, want %d", test.after, test.present, got, test.want)
		}
	}
}

// What was refused again and again on Monday is no measure for Friday.
func TestRefusalsOfLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	web, now := blocked("web"), time.Duration(0)
	backoff := New(config.Limits{}, noJitter)
	for range 6 { // 10, 20, 40, 80, 160 s, 5 min
		note(backoff, podOf("a"), web, at(now))
		now += 5 * time.Minute
	}
	now += 5*time.Minute - 1
	play(t, backoff, step{now, "a", web, "a"}, step{now + 5*time.Minute - 1, "", web, "a"}, step{now + 5*time.Minute, "", web, ""})
	now += 10 * time.Minute
	play(t, backoff, step{now, "a", web, "a"}, step{now + 10*time.Second - 1, "", web, "a"}, step{now + 10*time.Second, "", web, ""})
}

// TestPodWithoutAnAnswerBacksOff: a pod whose requests alone get no response must not keep the
// others from being tried; a connection that is broken for all pods is no fault of the pod.
func TestPodWithoutAnAnswerBacksOff(t *testing.T) {
	t.Parallel()
	doubtful, unread := evict.Result{Outcome: evict.Unconfirmed, Stays: true}, evict.Result{Outcome: evict.Unconfirmed}
	backoff := play(t, New(config.Limits{}, noJitter), step{0, "a", doubtful, ""}, step{0, "a", doubtful, ""})
	backoff.Observe(&decide.Report{Unread: true}, at(0))
	play(
		t, backoff,
		step{0, "a", unread, ""}, step{0, "a", doubtful, "a"}, step{time.Minute, "", doubtful, ""},
		step{time.Minute, "a", doubtful, "a"}, step{3*time.Minute - 1, "", doubtful, "a"},
		step{3 * time.Minute, "a", evict.Result{Outcome: evict.Gone}, ""}, step{3 * time.Minute, "a", doubtful, ""},
	)
	doubtful.NoResponse = true
	for after := time.Duration(0); after < 30*time.Second; after += time.Second {
		play(t, backoff, step{after, "b", doubtful, ""})
	}
	play(t, backoff, step{30 * time.Second, "b", doubtful, "b"})
}

func noJitter() float64 { return 0 }

// podOf is a ready pod of the namespace shop; e is one of another.
func podOf(uid string) *rank.Pod {
	return &rank.Pod{UID: uid, Namespace: map[bool]string{true: "office", false: "shop"}[uid == "e"], Ready: true}
}

func TestBackoffGrowsToItsLongestAndEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcome evict.Outcome
		retry   time.Duration
		random  float64
		want    []time.Duration
	}{
		{evict.BlockedByBudget, 0, 0, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}},
		{evict.BlockedByBudget, 0, 0.5, []time.Duration{11 * time.Second, 22 * time.Second}},
		{evict.BudgetPending, 10 * time.Second, 0, []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second, 16 * time.Second}},
		{evict.Denied, 0, 0, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute}},
		{evict.BudgetPending, time.Hour, 0, []time.Duration{32 * time.Second, 32 * time.Second}},
		{evict.Misconfigured, 0, 0, []time.Duration{time.Minute}},
	} {
		backoff, now := New(config.Limits{}, func() float64 { return test.random }), at(0)
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
		if _, waits := backoff.Server(now.Add(-1)); waits {
			t.Errorf("%v: a refusal of one pod keeps all requests back", test.outcome)
		}
	}
}

func TestBackoffOfTheServer(t *testing.T) {
	t.Parallel()
	const longest, none = 32 * time.Second, -time.Hour
	backoff, throttled := New(config.Limits{}, noJitter), func(retry time.Duration) evict.Result {
		return evict.Result{Outcome: evict.Throttled, RetryAfter: retry}
	}
	for _, test := range []struct {
		name   string
		answer evict.Result
		after  time.Duration
		until  time.Duration
	}{
		{"the caller has withdrawn it", evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Withdrawn: true}, 0, none},
		{"what the server requested", throttled(3 * time.Second), time.Second, 4 * time.Second},
		{"an answer", evict.Result{Outcome: evict.Evicted}, 5 * time.Second, none},
		{"which ended the row of failures", throttled(0), 6 * time.Second, 7 * time.Second},
		{"a webhook of the pod alone that cannot be called", evict.Result{Outcome: evict.Throttled, PodAlone: true}, 8 * time.Second, none},
		{"an hour: as long as the API server ever requests", throttled(time.Hour), time.Minute, time.Minute + longest},
	} {
		note(backoff, podOf("a"), test.answer, at(test.after))
		want := at(test.until)
		if test.until == none {
			want = time.Time{}
		}
		if w, _ := backoff.Server(at(test.after)); !w.Until.Equal(want) {
			t.Errorf("%s: waits until %v, want %v", test.name, w.Until, want)
		}
	}
}
