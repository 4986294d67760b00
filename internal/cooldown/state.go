package cooldown

import (
	"cmp"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
)

// The times are those of the node's clock, see package restored.

// State is what a [Tracker] knows that a restart must not forget, as plain values; the
// entries of each list are the oldest first. Each has an expiry of its own, after which it is
// not restored: by then the tracker would have forgotten it.
type State struct {
	// Limits are the evictions that count against the limits.
	Limits []CountedState `json:"limits,omitempty"`
	// Backoff are the pods and budgets that were refused or refused, and the API server.
	Backoff BackoffState `json:"backoff,omitzero"`
}

// Export returns what the tracker knows.
func (t *Tracker) Export() State {
	return State{Limits: t.limiter.export(), Backoff: t.refusals.export()}
}

// Restore replaces what the tracker knows by what was exported and has not expired.
func (t *Tracker) Restore(s State, now time.Time) {
	t.limiter.restore(s.Limits, now)
	t.refusals.restore(s.Backoff, now)
}

// CountedState is one eviction that a [Tracker] has counted.
type CountedState struct {
	// Owner is the UID of the pod's controller; "" for a bare pod.
	Owner string `json:"owner,omitempty"`
	// At is when it was accepted.
	At time.Time `json:"at"`
	// DryRun says that nothing happened to the pod.
	DryRun  bool      `json:"dryRun,omitempty"`
	Expires time.Time `json:"expires"`
}

// export returns what was counted, the oldest first.
func (l *limiter) export() []CountedState {
	counted := make([]CountedState, 0, len(l.recent))
	for _, a := range l.recent {
		counted = append(counted, CountedState{Owner: a.owner, At: a.at, DryRun: a.dryRun, Expires: a.at.Add(time.Hour)})
	}
	return counted
}

// restore replaces what was counted by what was exported and has not expired.
func (l *limiter) restore(counted []CountedState, now time.Time) {
	l.recent = make([]accepted, 0, len(counted))
	for _, c := range counted {
		if now.Before(c.Expires) {
			l.recent = append(l.recent, accepted{owner: c.Owner, at: state.Restored(c.At, now, 0), dryRun: c.DryRun})
		}
	}
	l.sort()
}

// BackoffState is what a [Tracker] knows of refusals.
type BackoffState struct {
	// Pods and Budgets are those in back-off after a refusal, the oldest first.
	Pods    []RefusalState `json:"pods,omitempty"`
	Budgets []RefusalState `json:"budgets,omitempty"`
	// Server is the API server itself; nil when it was not overloaded and did answer.
	Server *RefusalState `json:"server,omitempty"`
}

// RefusalState is what is known of a pod or a budget that was refused or refused, or of the
// API server.
type RefusalState struct {
	// UID is the pod's; "" for a budget and for the API server.
	UID string `json:"uid,omitempty"`
	// Namespace and Name are those of the budget, or of the budget whose back-off a ready pod
	// shares; "" for any other.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Refusals is how many there were in a row, Until when the last one is over, Last what
	// it was, and Budget the name of the budget in it.
	Refusals int           `json:"refusals,omitempty"`
	Until    time.Time     `json:"until,omitzero"`
	Last     evict.Outcome `json:"last,omitempty"`
	Budget   string        `json:"budget,omitempty"`
	// Trusted is until when the budget is expected to refuse the pod.
	Trusted time.Time `json:"trusted,omitzero"`
	// InDoubt is how many requests in a row had no known outcome, InDoubtSince since when.
	InDoubt      int       `json:"inDoubt,omitempty"`
	InDoubtSince time.Time `json:"inDoubtSince,omitzero"`
	Expires      time.Time `json:"expires"`
}

// export returns what is known of the refusals.
func (b *refusals) export() BackoffState {
	s := BackoffState{}
	for uid, r := range b.pods {
		kept := r.export()
		kept.UID, kept.Namespace, kept.Name = uid, r.kept.namespace, r.kept.name
		s.Pods = append(s.Pods, kept)
	}
	for key, r := range b.budgets {
		kept := r.export()
		kept.Namespace, kept.Name = key.namespace, key.name
		s.Budgets = append(s.Budgets, kept)
	}
	slices.SortFunc(s.Pods, firstToExpire)
	slices.SortFunc(s.Budgets, firstToExpire)
	if b.server != (refusal{}) {
		kept := b.server.export()
		s.Server = &kept
	}
	return s
}

// restore replaces what is known of the refusals by what was exported and has not expired.
func (b *refusals) restore(s BackoffState, now time.Time) {
	b.pods, b.budgets, b.server = make(map[string]refusal, len(s.Pods)), make(map[budgetKey]refusal, len(s.Budgets)), refusal{}
	for _, kept := range s.Pods {
		if r, valid := kept.restore(now); valid {
			r.kept = budgetKey{kept.Namespace, kept.Name}
			b.pods[kept.UID] = r
		}
	}
	for _, kept := range s.Budgets {
		if r, valid := kept.restore(now); valid {
			b.budgets[budgetKey{kept.Namespace, kept.Name}] = r
		}
	}
	if s.Server != nil {
		b.server, _ = s.Server.restore(now)
	}
}

// export returns a refusal as values. It is kept for as long after its end as any refusal
// that follows would make a longer one.
func (r *refusal) export() RefusalState {
	end := later(later(r.until, r.trusted), r.since)
	return RefusalState{
		Refusals: r.count, Until: r.until, Last: r.last, Budget: r.budget, Trusted: r.trusted,
		InDoubt: r.inDoubt, InDoubtSince: r.since, Expires: end.Add(spanOf(evict.Denied).longest),
	}
}

// restore returns the refusal, and false where it has expired.
func (s *RefusalState) restore(now time.Time) (refusal, bool) {
	if !now.Before(s.Expires) {
		return refusal{}, false
	}
	const most = trust + trust/5 // with its jitter; no back-off is longer
	return refusal{
		count: s.Refusals, until: state.Restored(s.Until, now, most), last: s.Last, budget: s.Budget,
		trusted: state.Restored(s.Trusted, now, most), inDoubt: s.InDoubt, since: state.Restored(s.InDoubtSince, now, 0),
	}, true
}

func firstToExpire(a, b RefusalState) int {
	return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
