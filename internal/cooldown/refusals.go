package cooldown

import (
	"fmt"
	"maps"
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
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

// spanOf returns how long the outcome keeps a pod from being tried again. What an administrator
// must fix waits longest, and so does a pod whose requests get no response repeatedly.
func spanOf(o evict.Outcome) span {
	switch o {
	case evict.BudgetPending, evict.Throttled: // of the pod alone: its webhook may be restarting
		return span{2 * time.Second, time.Minute}
	case evict.BlockedByBudget:
		return span{10 * time.Second, 5 * time.Minute}
	case evict.Evacuating: // longer than the 75 s for which its end is relied on: then others have their turn
		return span{2 * time.Minute, 10 * time.Minute}
	default:
		return span{time.Minute, 10 * time.Minute}
	}
}

// serverSpan is how long no request is sent to the API server after it was overloaded or did not
// respond. Its end is short, because pressure does not wait, and the load is small: one request
// every six seconds from each node under pressure.
func serverSpan() span { return span{time.Second, 6 * time.Second} }

// longestAsked is the longest Retry-After that is respected: the most that the API server's flow
// control sends (apiserver/pkg/util/flowcontrol/dropped_requests_tracker.go). A proxy may send an
// hour, but the node is under pressure now.
const longestAsked = 32 * time.Second

// stretched is the share by which a wait is stretched at random, so that the agents
// of many nodes do not come back to the API server together.
const stretched = 0.2

// inDoubtInARow is the number of requests in a row with an unknown outcome after which a pod that
// is still there backs off: the cause may be this pod alone, and the others must be tried too. A
// silent server is rather no fault of the pod, so this must also have lasted for silence.
const (
	inDoubtInARow = 3
	silence       = 30 * time.Second
)

// trust is how long a budget that has refused a pod is expected to refuse it still, while only
// other pods of the budget are tried: the budget or the pod's labels may have been changed.
const trust = 10 * time.Minute

// refusal is what is remembered of a pod or a budget that was refused or refused.
type refusal struct {
	count  int
	until  time.Time
	last   evict.Outcome
	budget string // that refused; "" when the answer named none
	// kept is the budget whose back-off a ready pod shares, and trusted until when; the zero value
	// for a pod with a back-off of its own.
	kept    budgetKey
	trusted time.Time
	// inDoubt is the number of requests in a row whose outcome is unknown, and since when.
	inDoubt int
	since   time.Time
}

// budgetKey names a PodDisruptionBudget.
type budgetKey struct{ namespace, name string }

// refusals remembers which pods were refused and when they may be tried again, and whether
// the API server itself is in back-off. The ready pods that a PDB has refused wait together:
// the first that is tried after that stands for all, see docs/adr/0012-share-a-pdb-refusal.md.
type refusals struct {
	random  func() float64
	pods    map[string]refusal
	budgets map[budgetKey]refusal
	server  refusal
}

func newRefusals(random func() float64) *refusals {
	return &refusals{random: random, pods: map[string]refusal{}, budgets: map[budgetKey]refusal{}}
}

// note remembers an answer about a pod. An accepted eviction forgets the
// refusals before it, its budget's too.
func (b *refusals) note(pod *rank.Pod, r evict.Result, now time.Time) {
	before := b.pods[pod.UID]
	switch {
	case r.Outcome.Accepted() || r.Outcome == evict.Gone:
		if r.Outcome == evict.Evicted || r.Outcome == evict.WouldEvict {
			delete(b.budgets, before.kept)
		}
		delete(b.pods, pod.UID)
	case r.Outcome.OfBudget() && r.Budget != "" && pod.Ready:
		b.keep(pod, r, now)
	case r.Next() == evict.NextCandidate, r.Outcome == evict.Evacuating:
		b.pods[pod.UID] = b.extend(before, spanOf(r.Outcome), r, now)
	case r.Stays:
		b.pods[pod.UID] = b.extendUnheard(before, r, now)
	}
	b.noteServer(r, now)
}

// noteServer puts the API server in back-off after a response that it is overloaded, or after no
// response. A request that was withdrawn has no effect.
func (b *refusals) noteServer(r evict.Result, now time.Time) {
	switch {
	case r.Withdrawn:
	case r.Outcome == evict.Throttled && !r.PodAlone, r.Outcome == evict.Unconfirmed:
		b.server = b.extend(b.server, serverSpan(), r, now)
	default:
		b.server = refusal{}
	}
}

// noteUnread records that a pod in doubt could not be read from the API server.
func (b *refusals) noteUnread(now time.Time) {
	b.server = b.extend(b.server, serverSpan(), evict.Result{Outcome: evict.Unconfirmed}, now)
}

// keep puts a pod in the back-off of the budget that blocks it. Several refusals of one decision
// are one for the budget.
func (b *refusals) keep(pod *rank.Pod, r evict.Result, now time.Time) {
	key := budgetKey{pod.Namespace, r.Budget}
	if rest := b.budgets[key]; !now.Before(rest.until) {
		b.budgets[key] = b.extend(rest, spanOf(r.Outcome), r, now)
	}
	b.pods[pod.UID] = refusal{last: r.Outcome, budget: r.Budget, kept: key, trusted: now.Add(b.stretch(trust))}
}

// extendUnheard puts a pod in back-off after several requests in a row with an unknown outcome.
func (b *refusals) extendUnheard(before refusal, r evict.Result, now time.Time) refusal {
	row, since := before.inDoubt+1, before.since
	if row == 1 {
		since = now
	}
	if row >= inDoubtInARow && (!r.NoResponse || now.Sub(since) >= silence) {
		before = b.extend(before, spanOf(r.Outcome), r, now)
	}
	before.inDoubt, before.since = row, since
	return before
}

// extend doubles a back-off, or uses the time that the server sent. A back-off starts anew when the
// longest time has passed since the last one without a refusal.
func (b *refusals) extend(before refusal, s span, r evict.Result, now time.Time) refusal {
	if now.Sub(before.until) >= s.longest {
		before.count = 0
	}
	wait := max(s.after(before.count), min(r.RetryAfter, longestAsked))
	return refusal{count: before.count + 1, until: now.Add(b.stretch(wait)), last: r.Outcome, budget: r.Budget}
}

// stretch makes a wait longer at random.
func (b *refusals) stretch(wait time.Duration) time.Duration {
	return wait + time.Duration(stretched*b.random()*float64(wait))
}

// waits returns why a pod waits, without a sentence, and false where it does not. The PDB is
// that of its last refusal in any case.
func (b *refusals) waits(pod *rank.Pod, now time.Time) (Reason, bool) {
	r := b.pods[pod.UID]
	until := b.rest(r, pod.Ready, now)
	return Reason{Kind: Refused, Until: until, Outcome: r.last, PDB: r.budget}, now.Before(until)
}

// rest returns until when a pod, ready or not, is in back-off after a refusal.
func (b *refusals) rest(r refusal, ready bool, now time.Time) time.Time {
	switch {
	case r.kept == budgetKey{}:
		return r.until
	case ready && now.Before(r.trusted):
		return earlier(b.budgets[r.kept].until, r.trusted)
	default:
		return time.Time{}
	}
}

// shared returns the name of the PDB whose back-off a ready pod shares; "" when the pod has its
// own.
func (b *refusals) shared(pod *rank.Pod, now time.Time) string {
	if r := b.pods[pod.UID]; pod.Ready && now.Before(r.trusted) {
		return r.kept.name
	}
	return ""
}

// blocked returns how many pods wait because a budget refused, and how many because more than
// one selects them.
func (b *refusals) blocked(now time.Time) (blocked, misconfigured int) {
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

// serverWaits returns why no request at all should be sent.
func (b *refusals) serverWaits(now time.Time) (Reason, bool) {
	until := b.server.until
	if !now.Before(until) {
		return Reason{}, false
	}
	return Reason{Kind: ServerBackOff, Until: until, Detail: fmt.Sprintf(
		"the API server is not asked for another %v", until.Sub(now).Round(time.Second))}, true
}

// forget drops the records of pods that are not present any more, and of budgets that block none of
// the others.
func (b *refusals) forget(present func(uid string) bool) {
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
