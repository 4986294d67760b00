package cooldown

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// answer is what the API server said about one pod.
func answer(pod *rank.Pod, r evict.Result) decide.Attempt {
	return decide.Attempt{Entry: rank.Entry{Pod: pod}, Result: r}
}

// reported returns the report of a decision of some time about a pressure, with answers.
func (q question) reported(at time.Time, stale bool, answers ...decide.Attempt) *decide.Report {
	return &decide.Report{Decision: decide.Decision{Incident: q.incident, Time: at, Pressure: q.at(at).Pressure, Attempts: answers}, Stale: stale}
}

// anything makes random things of all kinds happen to a tracker.
func anything(tracker *Tracker, r *rand.Rand, now time.Time) {
	in := questions()[r.IntN(8)]
	switch r.IntN(3) {
	case 0:
		report := in.reported(now.Add(-time.Duration(r.IntN(60))*time.Second), r.IntN(3) > 0,
			answer(somePod(r.IntN(8), true), someResult(r)), answer(somePod(r.IntN(8), false), someResult(r)))
		report.Unread, report.Hold = r.IntN(4) == 0, []decide.Hold{decide.HoldNone, decide.HoldBudgetUnknown}[r.IntN(2)]
		report.Shared = []decide.Attempt{answer(somePod(r.IntN(8), true), blocked("web"))}
		tracker.Observe(report, now)
	default:
		happen(tracker, r, now)
	}
}

// Nothing waits for ever, a reason holds until it says and no longer, and no question changes
// an answer.
func TestEveryReasonEndsWhenItSays(t *testing.T) {
	t.Parallel()
	const longest = 2 * time.Hour // no wait is longer
	for seed := range uint64(100) {
		tracker, r, now := newTracker(), rand.New(rand.NewPCG(seed, 3)), at(0)
		for range 1 + r.IntN(60) {
			now = now.Add(time.Duration(r.IntN(90_000)) * time.Millisecond)
			anything(tracker, r, now)
		}
		before := says(tracker, now)
		for name, ask := range questionsTo(tracker) {
			why, waits := ask(now)
			if !waits {
				continue
			}
			if !why.Until.After(now) || why.Until.Sub(now) > longest {
				t.Errorf("seed %d: %s waits until %v at %v", seed, name, why.Until, now)
			}
			if then, still := ask(why.Until.Add(-1)); !still {
				t.Errorf("seed %d: %s was to wait until %v, and does not: %+v", seed, name, why.Until, then)
			}
			if then, still := ask(why.Until); still {
				t.Errorf("seed %d: %s was to wait until %v, and waits until %v then", seed, name, why.Until, then.Until)
			}
		}
		if diff := cmp.Diff(before, says(tracker, now)); diff != "" {
			t.Fatalf("seed %d: asked twice (-first +second):\n%s", seed, diff)
		}
		if later := reasons(tracker, now.Add(longest)); len(later) != 0 {
			t.Errorf("seed %d: %v later: %v", seed, longest, later)
		}
	}
}

// In every history a pod waits for a limit while that is reached, and no longer.
func TestLimitsHoldInEveryHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		tracker, r, now := newTracker(), rand.New(rand.NewPCG(seed, 4)), at(0)
		var all []Accepted
		for range 400 {
			now = now.Add(time.Duration(r.IntN(20)) * time.Second)
			pod := somePod(r.IntN(8), true)
			of := pod.OwnerUID
			minute, hour := 0, 0
			for _, a := range all {
				if now.Sub(a.At) < time.Minute {
					minute++
				}
				if a.Owner == of && now.Sub(a.At) < time.Hour {
					hour++
				}
			}
			_, node := tracker.Node(now)
			_, owner := tracker.Owner(question{}.at(now), pod)
			if node != (minute >= 6) || owner != (of != "" && hour >= 5) {
				t.Fatalf("seed %d: %d evictions in a minute, %d of %q in an hour; waits %v, %v", seed, minute, hour, of, node, owner)
			}
			if !node && !owner {
				tracker.Accept(of, false, now)
				all = append(all, Accepted{Owner: of, At: now})
			}
		}
	}
}

// What a dry run evicted counts while it lasts, over a restart too; what was evicted for real counts on, by other limits.
func TestLimitsForgetDryRuns(t *testing.T) {
	t.Parallel()
	tracker := newTracker()
	for i := range 6 {
		tracker.Accept("web", i > 0, at(0))
	}
	next := restarted(t, tracker, at(1))
	_, node := next.Node(at(1))
	if _, owner := next.Owner(question{}.at(at(1)), &rank.Pod{OwnerUID: "web"}); !node || !owner {
		t.Errorf("a dry run does not count while it lasts: %v, %v", node, owner)
	}
	next.Adopt(config.Limits{EvictionsPerMinute: 1}, false)
	if got := next.Export().Accepted; len(got) != 1 || got[0].DryRun {
		t.Errorf("%+v count, want what was evicted for real", got)
	}
	if _, waits := next.Node(at(1)); !waits {
		t.Error("the other limit is not in force")
	}
}

// What was tried in one incident keeps a pod in that incident and for that signal alone, until
// another plan ends in time, or no other candidate is left.
func TestTriedPodsWaitInTheirPressure(t *testing.T) {
	t.Parallel()
	in := question{signal: pressure.MemoryAvailable, incident: "i-1", hard: true}
	waits := func(tracker *Tracker, in question, after time.Duration) bool {
		why, waits := tracker.Pod(in.at(at(after)), podOf("a"), false)
		return waits && strings.HasSuffix(why.Detail, " was "+string(evict.BudgetPending))
	}
	ends := func(in question, stale bool) func(*Tracker) {
		return func(c *Tracker) { c.Observe(in.reported(at(time.Second), stale), at(time.Second)) }
	}
	other, disk := in, in
	other.incident, disk.signal = "i-2", pressure.NodeFSAvailable
	for _, test := range []struct {
		name  string
		in    question
		after time.Duration
		then  func(*Tracker)
		want  bool
	}{
		{"after its back-off", in, 3 * time.Second, nil, true},
		{"at the end", in, triedFor - 1, nil, true},
		{"after the end", in, triedFor, nil, false},
		{"another incident", other, 3 * time.Second, nil, false},
		{"another signal", disk, 3 * time.Second, nil, false},
		{"no other candidate is left", in, 3 * time.Second, func(c *Tracker) { c.Retry(in.signal) }, false},
		{"a plan that ended in time", in, 3 * time.Second, ends(in, false), false},
		{"a stale plan that tried another pod", in, 3 * time.Second, ends(in, true), true},
		{"a stale plan of another incident", in, 3 * time.Second, ends(other, true), false},
	} {
		tracker := newTracker()
		tracker.Observe(in.reported(at(0), true, answer(podOf("a"), evict.Result{Outcome: evict.BudgetPending})), at(0))
		if test.then != nil {
			test.then(tracker)
		}
		if got := waits(tracker, test.in, test.after); got != test.want {
			t.Errorf("%s: waits %v, want %v", test.name, got, test.want)
		}
	}
}
