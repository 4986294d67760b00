package evict

import "time"

// span is how long a refused request waits: it starts at first and doubles with
// each refusal up to longest.
type span struct{ first, longest time.Duration }

// spanOf returns how long the outcome keeps a pod from being asked for again.
// What an administrator must mend waits longest.
func spanOf(o Outcome) span {
	switch o {
	case BudgetPending:
		return span{2 * time.Second, time.Minute}
	case BlockedByBudget:
		return span{10 * time.Second, 5 * time.Minute}
	case Denied, Misconfigured:
		return span{time.Minute, 10 * time.Minute}
	case Evicted, WouldEvict, Deleted, WouldDelete, Gone, Throttled, Unconfirmed:
		return span{} // nothing that the pod could help
	default:
		return span{time.Minute, 10 * time.Minute}
	}
}

// serverSpan is how long the API server is not asked at all after it was
// overloaded or did not answer. Its end is short: pressure does not wait, and a
// request every eight seconds from each node that is short of something is little.
func serverSpan() span { return span{time.Second, 8 * time.Second} }

// jitter is the share by which a wait is stretched at random, so that the agents
// of many nodes do not come back to the API server together.
const jitter = 0.2

// refusal is what is remembered of a pod that was refused.
type refusal struct {
	count  int
	until  time.Time
	last   Outcome
	budget string // that refused; "" when the answer named none
}

// Backoff remembers which pods were refused and when they may be asked for
// again, and whether the API server itself asked for a rest. It is not safe for
// concurrent use.
type Backoff struct {
	random func() float64
	pods   map[string]refusal
	server refusal
}

// NewBackoff returns an empty back-off. Random returns numbers in [0,1).
func NewBackoff(random func() float64) *Backoff {
	return &Backoff{random: random, pods: map[string]refusal{}}
}

// Note remembers an answer about a pod. An accepted eviction forgets the
// refusals before it.
func (b *Backoff) Note(uid string, r Result, now time.Time) {
	switch {
	case r.Outcome.Accepted() || r.Outcome == Gone:
		delete(b.pods, uid)
	case r.Outcome.Next() == NextCandidate:
		b.pods[uid] = b.extend(b.pods[uid], spanOf(r.Outcome), r, now)
	}
	switch r.Outcome {
	case Throttled, Unconfirmed:
		b.server = b.extend(b.server, serverSpan(), r, now)
	default:
		b.server = refusal{}
	}
}

func (b *Backoff) extend(before refusal, s span, r Result, now time.Time) refusal {
	wait := s.first
	for range before.count {
		if wait = 2 * wait; wait >= s.longest {
			wait = s.longest
			break
		}
	}
	wait = max(wait, r.RetryAfter)
	wait += time.Duration(jitter * b.random() * float64(wait))
	return refusal{count: before.count + 1, until: now.Add(wait), last: r.Outcome, budget: r.Budget}
}

// Waits returns the outcome that keeps the pod from being asked for now, and
// false when nothing does.
func (b *Backoff) Waits(uid string, now time.Time) (Outcome, bool) {
	r, refused := b.pods[uid]
	return r.last, refused && now.Before(r.until)
}

// Budget returns the name of the PodDisruptionBudget that refused the pod last; "" when
// none did, or the answer did not name it.
func (b *Backoff) Budget(uid string) string { return b.pods[uid].budget }

// Blocked returns how many pods wait because a budget refused.
func (b *Backoff) Blocked(now time.Time) int {
	n := 0
	for _, r := range b.pods {
		if now.Before(r.until) && r.last.OfBudget() {
			n++
		}
	}
	return n
}

// ServerWaits returns until when no request at all should be sent; the zero time
// when there is nothing to wait for.
func (b *Backoff) ServerWaits(now time.Time) time.Time {
	if now.Before(b.server.until) {
		return b.server.until
	}
	return time.Time{}
}

// Forget drops what is remembered of pods that are not present any more.
func (b *Backoff) Forget(present func(uid string) bool) {
	for uid := range b.pods {
		if !present(uid) {
			delete(b.pods, uid)
		}
	}
}
