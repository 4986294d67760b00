// Package cooldown knows what must wait, until when and why: pods and PodDisruptionBudgets that were
// refused, the API server, the first soft eviction of an incident, the next bypass of a budget; and how
// many evictions count against the limits. It learns from reports and by time only. See docs/adr/0012
// about a PDB's refusal.
package cooldown

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// key names what waits, as the state file writes it: its kind, and which one it is.
func key(kind, of, name string) string { return kind + "/" + of + "/" + name }

// The kinds.
const (
	// kindPod is a pod that was refused, with a back-off of its own, by its namespace and UID.
	kindPod = "pod"
	// kindPDB is a PodDisruptionBudget that refused, by namespace and name. The ready pods that it has
	// refused wait together: the first that is tried after that stands for all.
	kindPDB = "pdb"
	// kindShared is a ready pod that shares the back-off of its PDB, by its namespace and UID. Its time is
	// until when the PDB is expected to refuse it still.
	kindShared = "shared"
	// kindDoubt is a pod whose requests had no known outcome, by its namespace and UID: how many in a row.
	// Its time is until when that is rather no fault of the pod.
	kindDoubt = "doubt"
	// kindTried is a pod that a row of plans which ended for their age has tried, by the signal and its
	// UID. It is not retried before the row ends: back-offs begin at seconds, and the first of the ranking
	// would be retried again and again and the last never tried.
	kindTried = "tried"
	// kindServer is the API server, which was overloaded or did not answer, and kindBypass the next bypass
	// of a PDB.
	kindServer = "server"
	kindBypass = "bypass"
)

// Wait is what is remembered of one key.
type Wait struct {
	// Until is when the key need not wait any more.
	Until time.Time `json:"until"`
	// Count is how many refusals in a row there were; Why is the last one, and PDB the name of the
	// PodDisruptionBudget in it, "" where it had none.
	Count int           `json:"count,omitempty"`
	Why   evict.Outcome `json:"why,omitempty"`
	PDB   string        `json:"pdb,omitempty"`
	// Incident is the ID of the one in which that is so; "" where it is so in any.
	Incident string `json:"incident,omitempty"`
}

// State is what a [Tracker] knows, and what a restart must not forget.
type State struct {
	// Waits are by kind/of/name of what waits.
	Waits map[string]Wait `json:"waits,omitempty"`
	// Accepted are the evictions that count against the limits, the oldest first.
	Accepted []Accepted `json:"accepted,omitempty"`
}

// Tracker remembers what waits. It is not safe for concurrent use.
type Tracker struct {
	known  State
	limits config.Limits
	random func() float64
}

// New returns a tracker that remembers nothing; a limit of 0 is none. Random returns numbers in [0,1).
func New(limits config.Limits, random func() float64) *Tracker {
	return &Tracker{limits: limits, random: random, known: State{Waits: map[string]Wait{}}}
}

// Export returns a copy of what the tracker knows.
func (t *Tracker) Export() State {
	return State{Waits: maps.Clone(t.known.Waits), Accepted: append([]Accepted(nil), t.known.Accepted...)}
}

// Restore replaces what the tracker knows by what was exported and still matters.
func (t *Tracker) Restore(s State, now time.Time) {
	const most = trust + trust/5 // with what is drawn at random; no back-off is longer
	t.known = State{Waits: make(map[string]Wait, len(s.Waits))}
	for what, w := range s.Waits {
		w.Until = state.Restored(w.Until, now, most)
		t.known.Waits[what] = w
	}
	t.forget(now)
	for _, a := range s.Accepted {
		if now.Sub(a.At) < time.Hour {
			t.Accept(a.Owner, a.DryRun, state.Restored(a.At, now, 0))
		}
	}
}

// Observe learns from what became of a plan. A delete without the right to it does not count against
// its pod.
func (t *Tracker) Observe(r *decide.Report, now time.Time) {
	t.forget(now)
	for i := range r.Shared {
		t.answered(r.Shared[i].Entry.Pod, &r.Shared[i].Result, now)
	}
	unbypassed := r.Hold == decide.HoldBudgetUnknown || r.Hold == decide.HoldInsufficientReclaim
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if !a.Result.NoRight || a.Bypassed == nil {
			t.answered(a.Entry.Pod, &a.Result, now)
		}
		unbypassed = unbypassed || a.Bypassed != nil && !a.Result.Outcome.Accepted()
	}
	if r.Unread {
		t.extend(key(kindServer, "", ""), serverSpan(), &evict.Result{Outcome: evict.Unconfirmed}, now)
	}
	t.tried(&r.Decision, r.Stale)
	if unbypassed {
		t.known.Waits[key(kindBypass, "", "")] = Wait{Until: now.Add(bypassBackOff)}
	}
}

// forget drops what waits no more: after the longest back-off a refusal makes the next one no longer.
func (t *Tracker) forget(now time.Time) {
	maps.DeleteFunc(t.known.Waits, func(_ string, w Wait) bool {
		return now.Sub(w.Until) >= spanOf(evict.Denied).longest
	})
}

// Pod returns why a pod may not be evicted for now in a situation, whatever the limits, and false where it
// may be: by its back-off, or because it was tried in this pressure. Where a PDB may be bypassed its
// refusal alone keeps no pod.
func (t *Tracker) Pod(s *decide.Situation, pod *rank.Pod, bypassPDB bool) (decide.Wait, bool) {
	now := s.Pressure.SampleTime
	bypassed := func(w Wait) bool { return bypassPDB && w.Why.OfBudget() }
	w, waits := t.refusal(pod, now)
	if waits && bypassed(w) {
		w, waits = Wait{PDB: w.PDB}, false
	}
	last := t.known.Waits[key(kindTried, s.Pressure.Threshold.Signal.String(), pod.UID)]
	if now.Before(last.Until) && last.Incident == s.Incident && !bypassed(last) {
		if w.Until.After(last.Until) {
			last.Until = w.Until
		}
		w.Until, w.Why, waits = last.Until, last.Why, true
	}
	if !waits {
		return decide.Wait{PDB: w.PDB}, false
	}
	detail := "the last answer was " + string(w.Why)
	if w.PDB != "" {
		detail = fmt.Sprintf("the last answer of PodDisruptionBudget %s was %s", w.PDB, w.Why)
	}
	return decide.Wait{Until: w.Until, Detail: detail, PDB: w.PDB}, true
}

// Server returns why no request may be sent to the API server now.
func (t *Tracker) Server(now time.Time) (decide.Wait, bool) {
	until := t.known.Waits[key(kindServer, "", "")].Until
	return waits(until, now, "the API server is not asked for another %v", until.Sub(now).Round(time.Second))
}

// Bypass returns until when no PDB may be bypassed.
func (t *Tracker) Bypass(now time.Time) (decide.Wait, bool) {
	return waits(t.known.Waits[key(kindBypass, "", "")].Until, now, "")
}

// waits returns why something waits, and false where it does not.
func waits(until, now time.Time, why string, figures ...any) (decide.Wait, bool) {
	if !now.Before(until) {
		return decide.Wait{}, false
	}
	return decide.Wait{Until: until, Detail: fmt.Sprintf(why, figures...)}, true
}

// Jitter returns why the first soft eviction of an incident waits: once the grace period of a threshold that was met at
// its beginning is over, for a part of the longest wait that follows from the incident's ID.
func (t *Tracker) Jitter(s *decide.Situation) (decide.Wait, bool) {
	p, id, now := &s.Pressure, fnv.New32a(), s.Pressure.SampleTime
	if p.Threshold.Hard {
		return decide.Wait{}, false
	}
	_, _ = id.Write([]byte(s.Incident)) // it never fails
	part := time.Duration(float64(t.limits.SoftJitter.Duration) * float64(id.Sum32()) / math.MaxUint32)
	until := s.Began.Add(p.Threshold.Grace + part)
	return waits(until, now, "another %v of a random part of limits.softJitter, %v",
		until.Sub(now).Round(100*time.Millisecond), t.limits.SoftJitter.Duration)
}

// Accepted is an eviction that counts against the limits for an hour.
type Accepted struct {
	// Owner is the UID of the pod's controller; "" for a bare pod.
	Owner string `json:"owner,omitempty"`
	// At is when it was accepted.
	At time.Time `json:"at"`
	// DryRun says that nothing happened to the pod.
	DryRun bool `json:"dryRun,omitempty"`
}

// Adopt takes other limits, of which 0 is none. What was counted stays, but for what dry runs counted once evictd
// evicts for real: nothing happened to their pods.
func (t *Tracker) Adopt(limits config.Limits, dryRun bool) {
	t.limits = limits
	t.known.Accepted = slices.DeleteFunc(t.known.Accepted, func(a Accepted) bool { return a.DryRun && !dryRun })
}

// Accept counts an accepted eviction of a pod of the owner, or a simulated one.
func (t *Tracker) Accept(owner string, dryRun bool, now time.Time) {
	counted := slices.DeleteFunc(t.known.Accepted, func(a Accepted) bool { return now.Sub(a.At) >= time.Hour })
	t.known.Accepted = append(counted, Accepted{Owner: owner, At: now, DryRun: dryRun})
	slices.SortStableFunc(t.known.Accepted, func(a, b Accepted) int { return a.At.Compare(b.At) })
}

// Node returns why no pod of the node may be evicted for now: the limit a minute.
func (t *Tracker) Node(now time.Time) (decide.Wait, bool) {
	n, until := t.within(time.Minute, t.limits.EvictionsPerMinute, now, func(*Accepted) bool { return true })
	return waits(until, now, "%d evictions in the last minute, limits.evictionsPerMinute is %d", n, t.limits.EvictionsPerMinute)
}

// Owner returns why a pod may not be evicted for now because others of its controller were: the limit an hour, or
// that it replaced one that was evicted less than [decide.Relief] ago, whose end its own replacement would undo as
// soon. That alone keeps no pod near exhaustion. Pods without a controller are counted by the node's limit alone.
func (t *Tracker) Owner(s *decide.Situation, pod *rank.Pod) (decide.Wait, bool) {
	if pod.OwnerUID == "" {
		return decide.Wait{}, false
	}
	now, limit := s.Pressure.SampleTime, t.limits.PerOwnerPerHour
	ofOwner := func(a *Accepted) bool { return a.Owner == pod.OwnerUID }
	n, until := t.within(time.Hour, limit, now, ofOwner)
	why, is := waits(until, now, "%d of its owner's pods went in the last hour, limits.perOwnerPerHour is %d", n, limit)
	if is || decide.RunsOut(&s.Pressure, s.KubeletLine) {
		return why, is
	}
	_, until = t.within(decide.Relief, 1, now, func(a *Accepted) bool {
		return ofOwner(a) && !pod.Created.Before(a.At.Truncate(time.Second)) // a creation time has whole seconds
	})
	return waits(until, now, "it replaced a pod that was evicted less than %v ago, and would be replaced as soon", decide.Relief)
}

// within returns how many of the evictions are younger than the window, and until when they
// are as many as the limit; the zero time when they are not, or the limit is 0.
func (t *Tracker) within(window time.Duration, limit int32, now time.Time, counts func(*Accepted) bool) (n int, until time.Time) {
	for _, a := range slices.Backward(t.known.Accepted) {
		if now.Sub(a.At) >= window {
			break
		}
		if !counts(&a) {
			continue
		}
		if n++; limit > 0 && n >= int(limit) && until.IsZero() {
			until = a.At.Add(window)
		}
	}
	return n, until
}
