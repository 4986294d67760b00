package agent

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// lever is what says whether the agent acts.
type lever struct {
	mu      sync.Mutex
	state   acting.State
	changed chan struct{}
}

func newLever(s acting.State) *lever { return &lever{state: s, changed: make(chan struct{}, 1)} }

func (l *lever) now() acting.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *lever) set(s acting.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *lever) after(d time.Duration, s acting.State) { time.AfterFunc(d, func() { l.set(s) }) }

func (l *lever) connect(o *Options) {
	o.Acting, o.Policy.Acting = l.changed, l.now
}

func stopped() acting.State { return acting.State{Reason: acting.Stopped, Why: "planted"} }

// real returns the names of the pods for which evictions were sent, without dry runs.
func (n *fakeNode) real() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	for _, r := range n.evictions {
		if !r.DryRun {
			names = append(names, r.Name)
		}
	}
	return names
}

// A stopped agent decides and records, and evicts no pod; when the stop ends, it evicts the pod that
// it has named.
func TestStopKeepsTheEvidenceAndTheResumeActs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		l := newLever(stopped())
		a := newAgent(t, n, hardPolicy(), l.connect)
		l.after(time.Minute, acting.State{})
		n.after(59*time.Second, func() {
			if len(n.evictions) != 1 || !n.evictions[0].DryRun || n.decisions[0].DryRunWhy != "planted" || !n.decisions[0].DryRun {
				t.Errorf("stopped: requests %+v, decision %+v", n.evictions, n.decisions)
			}
		})
		runFor(t, a, 70*time.Second)
		if got := n.real(); len(got) != 1 || got[0] != "greedy" {
			t.Errorf("evicted %q, want greedy alone", got)
		}
		if d := n.last(t); d.DryRun || d.DryRunWhy != "" {
			t.Errorf("the decision after the stop is a dry run, %q", d.DryRunWhy)
		}
	})
}

// A stop cancels a plan: the request that is under way gets its answer, and no other is sent.
func TestStopCancelsAPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		for _, name := range []string{"a", "b", "c"} {
			n.run(name, 310, 100)
		}
		n.slow = 500 * time.Millisecond
		n.answer = func(r evict.Request) evict.Result { return evict.Result{Outcome: evict.Denied} }
		l := newLever(acting.State{})
		p := hardPolicy()
		p.Pacing.Min, p.Pacing.Max = 10*time.Second, 10*time.Second // no tick is due
		a := newAgent(t, n, p, l.connect)
		l.after(700*time.Millisecond, stopped())
		runFor(t, a, 1200*time.Millisecond)
		if got := n.real(); len(got) != 2 {
			t.Errorf("%q were requested, want the one before the stop and the one under way", got)
		}
	})
}

// Neither a stop nor its end begins the grace period of a soft threshold anew.
func TestStopKeepsAGracePeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 950, 100)
		p := hardPolicy()
		p.Thresholds = []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.1), Grace: 30 * time.Second}}
		l := newLever(acting.State{})
		a := newAgent(t, n, p, l.connect)
		l.after(10*time.Second, stopped())
		l.after(20*time.Second, acting.State{})
		runFor(t, a, 33*time.Second)
		if got := n.real(); len(got) != 1 {
			t.Errorf("evicted %q after 33 s, want the pod after its 30 s", got)
		}
	})
}

// wish is the last one about taints.
type wish struct{ want taint.Wanted }

func (w *wish) Want(one taint.Wanted)       { w.want = one }
func (*wish) Settled(context.Context) error { return nil }

// Until it is known whether the agent acts, the taints stay that a process before has set.
func TestTaintsStayWhileActingIsNotKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		w := &wish{}
		l := newLever(acting.State{Reason: acting.StopUnknown, Why: "planted"})
		p := hardPolicy()
		p.TaintNode = true
		a := newAgent(t, n, p, l.connect, func(o *Options) { o.Taints = w })
		runFor(t, a, 5*time.Second)
		if w.want != (taint.Wanted{Keep: true}) {
			t.Errorf("%+v", w.want)
		}
		l.set(stopped())
		b := newAgent(t, n, p, l.connect, func(o *Options) { o.Taints = w })
		runFor(t, b, 5*time.Second)
		if !w.want.DryRun {
			t.Errorf("%+v", w.want)
		}
	})
}
