package cooldown

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func newTracker() *Tracker {
	limits := config.Limits{EvictionsPerMinute: 6, PerOwnerPerHour: 5, SoftJitter: metav1.Duration{Duration: time.Minute}}
	return New(limits, noJitter)
}

// restarted returns a new tracker with what the first one exports, as it comes back from a file.
func restarted(t *testing.T, tracker *Tracker, now time.Time) *Tracker {
	t.Helper()
	text, err := json.Marshal(tracker.Export())
	must.Succeed(t, err)
	var copied State
	must.Succeed(t, json.Unmarshal(text, &copied))
	next := newTracker()
	next.Restore(copied, now)
	return next
}

// somePod is one of eight pods of three owners; each third pod has none.
func somePod(i int, ready bool) *rank.Pod {
	pod := &rank.Pod{UID: fmt.Sprintf("pod-%d", i), Namespace: "shop", Ready: ready}
	if i%4 < 3 {
		pod.Owner, pod.OwnerUID = fmt.Sprintf("ReplicaSet/%d", i%4), fmt.Sprintf("owner-%d", i%4)
	}
	return pod
}

// happen makes one random thing happen that survives a restart.
func happen(tracker *Tracker, r *rand.Rand, now time.Time) {
	pod, dryRun := somePod(r.IntN(8), r.IntN(2) == 0), r.IntN(4) == 0
	switch r.IntN(6) {
	case 0, 1:
		tracker.Accept(pod.OwnerUID, dryRun, now)
	case 2:
		tracker.Observe(&decide.Report{}, now)
	default:
		note(tracker, pod, someResult(r), now)
	}
}

func someResult(r *rand.Rand) evict.Result {
	return evict.Result{
		Outcome: evict.Outcomes()[r.IntN(len(evict.Outcomes()))], Budget: []string{"", "web", "db"}[r.IntN(3)],
		Stays: true, NoResponse: r.IntN(2) == 0, RetryAfter: time.Duration(r.IntN(3)) * time.Hour,
	}
}

// question is a pressure that a pod may be checked for.
type question struct {
	signal         pressure.Signal
	incident       string
	hard, bypasses bool
}

// at returns the situation at a time.
func (q question) at(now time.Time) *decide.Situation {
	return &decide.Situation{Incident: q.incident, Began: at(0), Pressure: pressure.Pressure{
		Threshold: pressure.Threshold{Signal: q.signal, Hard: q.hard}, SampleTime: now,
	}}
}

// questions are all of them.
func questions() (all []question) {
	for _, signal := range []pressure.Signal{pressure.MemoryAvailable, pressure.PIDAvailable} {
		all = append(all, question{signal, "i-1", false, false}, question{signal, "i-2", false, false}, question{signal, "i-1", true, false}, question{signal, "i-1", true, true})
	}
	return all
}

// questionsTo returns all queries of a tracker, by name.
func questionsTo(tracker *Tracker) map[string]func(now time.Time) (decide.Wait, bool) {
	all := map[string]func(now time.Time) (decide.Wait, bool){"node": tracker.Node, "server": tracker.Server, "bypass": tracker.Bypass}
	for _, in := range questions() {
		all[fmt.Sprintf("jitter %+v", in)] = func(now time.Time) (decide.Wait, bool) { return tracker.Jitter(in.at(now)) }
		for i := range 16 {
			pod := somePod(i/2, i%2 == 0)
			all[fmt.Sprintf("owner of %s %+v", pod.UID, in)] = func(now time.Time) (decide.Wait, bool) { return tracker.Owner(in.at(now), pod) }
			all[fmt.Sprintf("%s ready %v %+v", pod.UID, pod.Ready, in)] = func(now time.Time) (decide.Wait, bool) { return tracker.Pod(in.at(now), pod, in.bypasses) }
		}
	}
	return all
}

// reasons returns all answers of a tracker at a time.
func reasons(tracker *Tracker, now time.Time) map[string]decide.Wait {
	all := map[string]decide.Wait{}
	for name, ask := range questionsTo(tracker) {
		if r, waits := ask(now); waits {
			all[name] = r
		}
	}
	return all
}

// says returns the results of all queries in a form that can be compared.
func says(tracker *Tracker, now time.Time) map[string]string {
	all := map[string]string{"counts": fmt.Sprint(tracker.Waiting(now, func(uid string) bool { return uid != "pod-0" }))}
	for name, r := range reasons(tracker, now) {
		r.Until = r.Until.UTC() // without its monotonic reading
		all[name] = fmt.Sprint(r)
	}
	for i := range 8 {
		pod := somePod(i, true)
		w, _ := tracker.refusal(pod, now)
		all["shared by "+pod.UID] = w.PDB
	}
	return all
}

// Guards invariant 9: whatever has happened before, a process that was restarted and one that
// was not say the same from then on, whatever happens.
func TestRestoredTrackerSaysTheSame(t *testing.T) {
	t.Parallel()
	seeds := uint64(100)
	if testing.Short() {
		seeds = 25 // comparing is slow: a hundred take 2 s
	}
	for seed := range seeds {
		before, now := newTracker(), at(time.Hour)
		r := rand.New(rand.NewPCG(seed, 1))
		for range r.IntN(40) {
			now = now.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
			happen(before, r, now)
		}
		restored := restarted(t, before, now)
		for step := range 30 {
			if diff := cmp.Diff(says(before, now), says(restored, now)); diff != "" {
				t.Fatalf("seed %d, step %d after the restart (-not restarted +restarted):\n%s", seed, step, diff)
			}
			now = now.Add(time.Duration(r.IntN(60_000)) * time.Millisecond)
			same := r.Uint64()
			happen(before, rand.New(rand.NewPCG(same, 2)), now)
			happen(restored, rand.New(rand.NewPCG(same, 2)), now)
		}
	}
}

// What has expired is not restored, and a clock that was set back makes nothing last longer.
func TestRestoredTimes(t *testing.T) {
	t.Parallel()
	tracker := newTracker()
	tracker.Accept("owner", false, at(0))
	note(tracker, podOf("a"), blocked("web"), at(0))
	note(tracker, podOf("b"), evict.Result{Outcome: evict.Throttled}, at(0))
	for after, want := range map[time.Duration]string{
		-time.Hour: "1 counted, 3 wait",
		0:          "1 counted, 3 wait",
		time.Hour:  "0 counted, 0 wait",
	} {
		s := restarted(t, tracker, at(after)).Export()
		if got := fmt.Sprintf("%d counted, %d wait", len(s.Accepted), len(s.Waits)); got != want {
			t.Errorf("restored after %v: %s; want %s", after, got, want)
		}
		for _, a := range s.Accepted {
			if a.At.After(at(after)) {
				t.Errorf("restored after %v: an eviction counts for more than an hour: %v", after, a.At)
			}
		}
		for what, w := range s.Waits {
			if w.Until.Sub(at(after)) > 12*time.Minute {
				t.Errorf("restored after %v: %s is not bounded: %v", after, what, w.Until)
			}
		}
	}
}
