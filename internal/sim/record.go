package sim

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// recorder is a node that keeps what its agent records. It implements [agent.Recorder].
type recorder struct{ *Node }

// Sample notes a stale verdict, which has no pressures: it hides what is done under pressure alone.
func (r recorder) Sample(_ *pressure.Sample, verdict *pressure.Verdict) {
	if verdict.Stale {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stale++
	} else if len(verdict.Pressures) > 0 {
		r.reach("after the judgement")
	}
}

// Decision keeps a decision; as the record it keeps a hold that is made again at each tick once in 30 s.
func (r recorder) Decision(d *decide.Decision) {
	if d.Verb() == decide.Acted {
		r.reach("before the decision is recorded")
		defer r.reach("after the decision is recorded")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.said[d.Pressure.Threshold.Signal]
	again := d.Verb() == decide.Held && last.Hold == d.Hold && last.Pressure.Threshold.Hard == d.Pressure.Threshold.Hard
	if again && d.Time.Sub(last.Time) < 30*time.Second {
		return
	}
	*last = *d
	r.decisions = append(r.decisions, *d)
}

// Likely keeps the pod's name, with what is left of the grace period in seconds.
func (r recorder) Likely(d *decide.Decision, first *decide.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &d.Pressure
	left := p.Threshold.Grace - p.SampleTime.Sub(p.Since)
	r.warned = append(r.warned, first.Entry.Pod.Name+" "+left.Round(time.Second).String())
}

// Incidents keeps those that have ended.
func (r recorder) Incidents(_, ended []incident.Incident) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.incidents = append(r.incidents, ended...)
}

// Intent keeps the pod's name.
func (r recorder) Intent(_ *decide.Decision, a *decide.Attempt) {
	r.reach("when the intent is recorded")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intents = append(r.intents, a.Entry.Pod.Name)
}

// VictimEnded keeps the victim's end.
func (r recorder) VictimEnded(e *decide.Ended) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, *e)
}

// Failed keeps the source.
func (r recorder) Failed(source string, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readFault = append(r.readFault, source)
}

// Tick keeps nothing.
func (recorder) Tick(time.Time, time.Duration) {}

// Ledger keeps nothing.
func (r recorder) Ledger(_ time.Time, bookings []decide.Victim, _, _ int) {
	if len(bookings) > 0 {
		r.reach("on the next tick, while the victim is in flight")
	}
}

// Acting keeps nothing.
func (recorder) Acting(acting.State) {}

// Victims returns the names of the pods in the order of their requests.
func (n *Node) Victims() []string {
	return namesOf(n, func(evict.Request) bool { return true })
}

// namesOf returns the names of the pods for which such requests were sent, in their order.
func namesOf(n *Node, which func(evict.Request) bool) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	names := make([]string, 0, len(n.evictions))
	for _, r := range n.evictions {
		if which(r) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Holds returns why no pod was evicted, in order, without repetitions.
func (n *Node) Holds() []decide.Hold {
	n.mu.Lock()
	defer n.mu.Unlock()
	var holds []decide.Hold
	for i := range n.decisions {
		if d := &n.decisions[i]; d.Verb() == decide.Held {
			holds = append(holds, d.Hold)
		}
	}
	return slices.Compact(holds)
}
