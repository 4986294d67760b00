package cooldown

import (
	"maps"
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// span is how long a refused request waits: it starts at first and doubles with
// each refusal up to longest.
type span struct{ first, longest time.Duration }

// after returns how long it waits after so many refusals before.
func (s span) after(refusals int) time.Duration {
	wait := s.first
	for ; refusals > 0 && wait < s.longest; refusals-- {
		wait *= 2
	}
	return min(wait, s.longest)
}

// spanOf returns how long the outcome keeps a pod from being asked for again.
// What an administrator must mend waits longest, and so does a pod whose requests are not
// answered again and again.
func spanOf(o evict.Outcome) span {
	switch o {
	case evict.BudgetPending:
		return span{2 * time.Second, time.Minute}
	case evict.BlockedByBudget:
		return span{10 * time.Second, 5 * time.Minute}
	default:
		return span{time.Minute, 10 * time.Minute}
	}
}

// serverSpan is how long the API server is not asked at all after it was
// overloaded or did not answer. Its end is short: pressure does not wait, and a
// request every six seconds from each node that is short of something is little.
func serverSpan() span { return span{time.Second, 6 * time.Second} }

// longestAsked is the longest Retry-After that is believed: the most that the API server's
// flow control asks for (apiserver/pkg/util/flowcontrol/dropped_requests_tracker.go). A proxy
// may ask for an hour, and the node is short of something now.
const longestAsked = 32 * time.Second

// jitter is the share by which a wait is stretched at random, so that the agents
// of many nodes do not come back to the API server together.
const jitter = 0.2

// unheardInARow is after how many requests that settled nothing a pod backs off that was
// there each time: the answer may be about this pod alone, and the others must have their
// turn. A silent server is rather no pod's fault: then that must have lasted for silence, too.
const (
	unheardInARow = 3
	silence       = 30 * time.Second
)

// trust is how long a budget is believed to keep a pod that it has refused, while only
// others of its pods are asked for: the budget or the pod's labels may have been changed.
const trust = 10 * time.Minute

// Pod is what the back-off needs to know of a pod.
type Pod struct {
	UID, Namespace string
	// Ready says that its condition Ready is true. A budget answers alike for all its ready
	// pods; of the others it may let one go (unhealthyPodEvictionPolicy) and keep the next.
	Ready bool
}

// refusal is what is remembered of a pod or a budget that was refused or refused.
type refusal struct {
	count  int
	until  time.Time
	last   evict.Outcome
	budget string // that refused; "" when the answer named none
	// kept is the budget with whose ready pods a pod rests, and trusted until when; the
	// zero value for a pod that rests by itself.
	kept    budgetKey
	trusted time.Time
	// unheard is how many requests in a row settled nothing, and since when.
	unheard int
	since   time.Time
}

// budgetKey names a PodDisruptionBudget.
type budgetKey struct{ namespace, name string }

// Backoff remembers which pods were refused and when they may be asked for
// again, and whether the API server itself asked for a rest. It is not safe for
// concurrent use.
//
// The ready pods that a budget has refused rest together: the first that is asked for after
// that asks for all of them, and when it is refused all rest again, for longer. Which pods a
// budget selects is known from its refusals alone: evictd may not list budgets.
type Backoff struct {
	random  func() float64
	pods    map[string]refusal
	budgets map[budgetKey]refusal
	server  refusal
}

// NewBackoff returns an empty back-off. Random returns numbers in [0,1).
func NewBackoff(random func() float64) *Backoff {
	return &Backoff{random: random, pods: map[string]refusal{}, budgets: map[budgetKey]refusal{}}
}

// Note remembers an answer about a pod. An accepted eviction forgets the
// refusals before it, its budget's too.
func (b *Backoff) Note(pod Pod, r evict.Result, now time.Time) {
	before := b.pods[pod.UID]
	switch {
	case r.Outcome.Accepted() || r.Outcome == evict.Gone:
		if r.Outcome == evict.Evicted || r.Outcome == evict.WouldEvict {
			delete(b.budgets, before.kept)
		}
		delete(b.pods, pod.UID)
	case r.Outcome.OfBudget() && r.Budget != "" && pod.Ready:
		b.keep(pod, r, now)
	case r.Outcome.Next() == evict.NextCandidate:
		b.pods[pod.UID] = b.extend(before, spanOf(r.Outcome), r, now)
	case r.Stays:
		b.pods[pod.UID] = b.extendUnheard(before, r, now)
	}
	b.noteServer(r, now)
}

// noteServer lets the API server rest after an answer that says that it is overloaded, or
// after none. A request that was withdrawn says nothing of it.
func (b *Backoff) noteServer(r evict.Result, now time.Time) {
	switch {
	case r.Withdrawn:
	case r.Outcome == evict.Throttled, r.Outcome == evict.Unconfirmed:
		b.server = b.extend(b.server, serverSpan(), r, now)
	default:
		b.server = refusal{}
	}
}

// NoteUnread remembers that the API server could not be asked what became of a pod.
func (b *Backoff) NoteUnread(now time.Time) {
	b.server = b.extend(b.server, serverSpan(), evict.Result{Outcome: evict.Unconfirmed}, now)
}

// keep lets a pod rest with the others that its budget keeps. Several refusals of one
// decision are one for the budget.
func (b *Backoff) keep(pod Pod, r evict.Result, now time.Time) {
	key := budgetKey{pod.Namespace, r.Budget}
	if rest := b.budgets[key]; !now.Before(rest.until) {
		b.budgets[key] = b.extend(rest, spanOf(r.Outcome), r, now)
	}
	b.pods[pod.UID] = refusal{last: r.Outcome, budget: r.Budget, kept: key, trusted: now.Add(b.stretch(trust))}
}

// extendUnheard lets a pod rest where several requests in a row settled nothing.
func (b *Backoff) extendUnheard(before refusal, r evict.Result, now time.Time) refusal {
	row, since := before.unheard+1, before.since
	if row == 1 {
		since = now
	}
	if row >= unheardInARow && (!r.Silent || now.Sub(since) >= silence) {
		before = b.extend(before, spanOf(r.Outcome), r, now)
	}
	before.unheard, before.since = row, since
	return before
}

// extend lets something rest for twice as long as before, or as long as the server asked for.
// What was not refused again for the longest time after a rest begins anew.
func (b *Backoff) extend(before refusal, s span, r evict.Result, now time.Time) refusal {
	if now.Sub(before.until) >= s.longest {
		before.count = 0
	}
	wait := max(s.after(before.count), min(r.RetryAfter, longestAsked))
	return refusal{count: before.count + 1, until: now.Add(b.stretch(wait)), last: r.Outcome, budget: r.Budget}
}

// stretch makes a wait longer at random.
func (b *Backoff) stretch(wait time.Duration) time.Duration {
	return wait + time.Duration(jitter*b.random()*float64(wait))
}

// Waits returns the outcome that keeps the pod from being asked for now, and
// false when nothing does.
func (b *Backoff) Waits(pod Pod, now time.Time) (evict.Outcome, bool) {
	r := b.pods[pod.UID]
	return r.last, now.Before(b.rest(r, pod.Ready, now))
}

// rest returns until when a pod that is ready or not rests after a refusal.
func (b *Backoff) rest(r refusal, ready bool, now time.Time) time.Time {
	switch {
	case r.kept == budgetKey{}:
		return r.until
	case ready && now.Before(r.trusted):
		return b.budgets[r.kept].until
	default:
		return time.Time{}
	}
}

// Budget returns the name of the PodDisruptionBudget that refused the pod last; "" when
// none did, or the answer did not name it.
func (b *Backoff) Budget(uid string) string { return b.pods[uid].budget }

// KeptWith returns the name of the PodDisruptionBudget whose ready pods the pod rests with;
// "" when it rests by itself.
func (b *Backoff) KeptWith(pod Pod, now time.Time) string {
	if r := b.pods[pod.UID]; pod.Ready && now.Before(r.trusted) {
		return r.kept.name
	}
	return ""
}

// Blocked returns how many pods wait because a budget refused, and how many because more than
// one selects them.
func (b *Backoff) Blocked(now time.Time) (blocked, misconfigured int) {
	for _, r := range b.pods {
		switch {
		case !now.Before(b.rest(r, true, now)):
		case r.last.OfBudget():
			blocked++
		case r.last == evict.Misconfigured:
			misconfigured++
		}
	}
	return blocked, misconfigured
}

// ServerWaits returns until when no request at all should be sent; the zero time
// when there is nothing to wait for.
func (b *Backoff) ServerWaits(now time.Time) time.Time {
	if now.Before(b.server.until) {
		return b.server.until
	}
	return time.Time{}
}

// Forget drops what is remembered of pods that are not present any more, and of budgets that
// keep none of the others.
func (b *Backoff) Forget(present func(uid string) bool) {
	remembered := len(b.pods)
	maps.DeleteFunc(b.pods, func(uid string, _ refusal) bool { return !present(uid) })
	if len(b.pods) == remembered {
		return
	}
	keeping := make(map[budgetKey]bool, len(b.budgets))
	for _, r := range b.pods {
		keeping[r.kept] = true
	}
	maps.DeleteFunc(b.budgets, func(key budgetKey, _ refusal) bool { return !keeping[key] })
}
