package agent

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
)

// file is a state directory: what is saved is what a file would have.
type file struct {
	t *testing.T

	mu    sync.Mutex
	text  []byte
	saves []time.Time
}

func (f *file) Save(s any) func() {
	text, err := state.Encode(s, state.Identity{BootID: "boot"}, time.Now())
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(text) != string(f.text) {
		f.text, f.saves = text, append(f.saves, time.Now())
	}
	return func() {}
}

// load returns what a process finds that is started now; nil where there is nothing.
func (f *file) load() *State {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.text == nil {
		return nil
	}
	s := &State{}
	if err := state.Decode(f.text, state.Identity{BootID: "boot"}, time.Now(), s); err != nil {
		f.t.Error(err)
	}
	return s
}

// inDoubt returns the requests in a state whose outcome is not known.
func inDoubt(s *State) (open []*decide.InDoubt) {
	for _, v := range s.InFlight.Victims {
		if v.Phase == decide.Requested {
			open = append(open, v.Request)
		}
	}
	return open
}

// copied returns the file as it is now, for a process that is killed at this moment.
func (f *file) copied() *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &file{t: f.t, text: slices.Clone(f.text)}
}

// live runs an agent on the node for a while that finds the file of the one before.
func live(t *testing.T, n *fakeNode, f *file, policy Policy, during time.Duration, change ...func(*Options)) {
	t.Helper()
	options := Options{
		Policy: enforced(policy), Sampler: n, Pods: n, Cgroups: n, Evictor: n, Recorder: recorder{n},
		Random: func() float64 { return 0 }, Remembered: &State{},
	}
	if f != nil {
		options.Memory = f
		if kept := f.load(); kept != nil {
			options.Remembered = kept
		}
	}
	for _, c := range change {
		c(&options)
	}
	a, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	runFor(t, a, during)
}

// knowsNothing makes a process one that knows nothing of the time before its start.
func knowsNothing(o *Options) { o.Remembered = nil }

// leaky is a node that is short of memory whichever pods are evicted: small pods with one owner
// each.
func leaky(names ...string) *fakeNode {
	n := newFakeNode(1000)
	n.ends = time.Second
	for _, name := range names {
		n.run(name, 2, 1)
	}
	n.host = 980 * mebi
	return n
}

func limited(perMinute int) Policy {
	policy := hardPolicy()
	policy.Limits = cooldown.Limits{PerMinute: perMinute}
	return policy
}

// An agent that is killed under pressure, again and again, evicts no more in a minute than
// one that is not.
func TestFaultRestartBeginsNoFreshMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := leaky("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"), &file{t: t}
		live(t, n, f, limited(3), 20*time.Second)
		for range 4 {
			live(t, n, f, limited(3), 5*time.Second)
		}
		n.wantVictims(t, "a", "b", "c")
	})
}

// Guards invariant 9: limits and back-offs hold on after a restart.
func TestInvariant09BackOffsHoldOnAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := leaky("denied")
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.Denied} }
		f := &file{t: t}
		live(t, n, f, hardPolicy(), 5*time.Second)
		live(t, n, f, hardPolicy(), 5*time.Second)
		n.wantVictims(t, "denied")
		live(t, n, f, hardPolicy(), time.Minute) // the back-off of a minute ends in it
		n.wantVictims(t, "denied", "denied")
	})
}

// Guards invariant 9: a process that is killed while its request is pending, before it reached the
// API server or after, has left a record of it. The next process evicts the same pod, or takes its
// eviction for its own.
func TestInvariant09RequestInDoubtIsReadFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrives bool
		grace   int64
		want    []string
	}{
		"it never arrived":               {false, 30, []string{"greedy"}},
		"it was carried out":             {true, 30, []string{}},
		"it was carried out and is gone": {true, 0, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				grace := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &test.grace }
				n.run("also", 450, 100)
				n.run("greedy", 500, 100, grace)
				first := &file{t: t}
				var killed *file
				n.answer = func(evict.Request) evict.Result {
					killed = first.copied()
					return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true}
				}
				live(t, n, first, limited(6), 20*time.Millisecond)
				n.wantVictims(t, "greedy")
				if open := inDoubt(killed.load()); len(open) != 1 || open[0].Attempt.Entry.Pod.Name != "greedy" {
					t.Fatalf("in doubt when the request was sent: %+v", open)
				}
				n.evictions, n.answer, n.looks, n.decisions = nil, nil, nil, nil
				if test.arrives {
					n.ends = 3 * time.Second
					n.mu.Lock()
					n.terminate("uid-greedy")
					n.mu.Unlock()
				}
				// Another pod would be the first of the ranking by now.
				n.pods["uid-also"].memory, n.pods["uid-greedy"].memory = 480*mebi, 470*mebi
				live(t, n, killed, limited(6), time.Minute)
				n.wantVictims(t, test.want...)
				if got := killed.load(); len(inDoubt(got)) > 0 || len(got.Cooldown.Accepted) != 1 {
					t.Errorf("after it was resolved: %+v in doubt, %d count against the limits, want none and 1", inDoubt(got), len(got.Cooldown.Accepted))
				}
			})
		})
	}
}

// Guards invariant 9: a victim of the process before is evictd's own, so that it can be ended
// sooner when hard pressure comes.
func TestInvariant09OwnVictimStaysOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := patientNode(3600), &file{t: t}
		live(t, n, f, escalating(), 20*time.Second)
		live(t, n, f, escalating(), decide.HardPatience)
		if got := n.graces(); !slices.Equal(got, []asked{{"patient", -1}, {"patient", 10}}) {
			t.Errorf("evicted %v, want the victim again with less time", got)
		}
	})
}

// TestIncidentGoesOnAfterARestart: an incident continues after a restart: its victims before and
// after have one ID.
func TestIncidentGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := leaky("a", "b"), &file{t: t}
		live(t, n, f, limited(1), 5*time.Second)
		live(t, n, f, limited(1), 2*time.Minute)
		ids := map[string]int{}
		for i := range n.decisions {
			if d := &n.decisions[i]; d.Verb == decide.Acted {
				ids[d.Incident]++
			}
		}
		if len(ids) != 1 || ids[""] > 0 {
			t.Errorf("victims by incident: %v, want all in one", ids)
		}
		if open := f.load().Incidents; len(open) != 1 || len(open[0].Victims) != 2 {
			t.Errorf("open at the end: %+v, want one incident with both victims", open)
		}
	})
}

// restartedDisk is a node whose filesystem is short from the first sample on.
func restartedDisk() (*spaceNode, Policy) {
	n := slowCollector()
	n.prepare()
	return n, n.policy()
}

// parts makes the filesystem an agent's.
func (s *spaceNode) parts(o *Options) {
	o.Sampler, o.Disk = s, &fakeDisk{node: s.fakeNode, measured: s.measured}
}

// Guards invariant 9 for disks: a process is killed at some time before, while and after its
// victim ends, and the space comes back up to a minute later. Nothing else is evicted for it.
func TestInvariant09DiskRestartEvictsNoSecond(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{5 * time.Second, 11 * time.Second, 14 * time.Second, 30 * time.Second, 60 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, policy := restartedDisk()
				f := &file{t: t}
				live(t, n.fakeNode, f, policy, after, n.parts)
				live(t, n.fakeNode, f, policy, 3*time.Minute, n.parts)
				n.wantVictims(t, "large")
			})
		})
	}
}

// A calm node's state is not written, and neither is it at each tick under pressure.
func TestNothingIsSavedWhereNothingChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := newFakeNode(1000), &file{t: t}
		n.run("calm", 100, 100)
		live(t, n, f, hardPolicy(), time.Hour)
		if f.text != nil && len(f.saves) > 1 { // the end of the process saves once
			t.Errorf("a calm node was saved %d times", len(f.saves))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n, f := newFakeNode(1000), &file{t: t}
		n.run("protected", 950, 100, func(p *corev1.Pod) { p.OwnerReferences = nil })
		live(t, n, f, hardPolicy(), time.Hour)
		if len(f.saves) > 2 { // the careful start, and the end
			t.Errorf("an hour of pressure in which nothing happens was saved %d times", len(f.saves))
		}
	})
}

// The entries of a dry run end with it, also where it ended while evictd was away.
func TestDryRunEntriesAreNotRestoredForReal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := leaky("a", "b"), &file{t: t}
		policy := limited(1)
		policy.DryRun = true
		live(t, n, f, policy, 5*time.Second)
		n.evictions = nil
		policy.DryRun = false
		live(t, n, f, policy, time.Second)
		if got := n.victims(); len(got) != 1 {
			t.Errorf("evicted %v, want one: what the dry run counted has ended with it", got)
		}
	})
}

// A dry run names each pod once in an incident, also where it was restarted meanwhile.
func TestDryRunNamesNoPodAgainAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := newFakeNode(1000), &file{t: t}
		n.run("greedy", 500, 100)
		n.run("also", 450, 100)
		policy := hardPolicy()
		policy.DryRun, policy.Transition = true, 5*time.Minute
		for range 3 { // the grace period and the margin are over in the first
			live(t, n, f, policy, time.Minute)
		}
		n.wantVictims(t, "greedy")
	})
}

// slowMemory takes as long as a store waits at most.
type slowMemory struct{ *file }

func (m slowMemory) Save(s any) func() {
	return func() {
		time.Sleep(state.Patience)
		m.file.Save(s)
	}
}

// A state that cannot be written stops no eviction.
func TestEvictionDoesNotWaitForItsState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		f := &file{t: t}
		live(t, n, nil, hardPolicy(), state.Patience+10*time.Millisecond, func(o *Options) { o.Memory = slowMemory{f} })
		n.wantVictims(t, "greedy")
	})
}
