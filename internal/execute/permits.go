package execute

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/pools"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// permitsKnown is what a run knows of eviction permits.
type permitsKnown struct {
	from    Permits           // nil when there are none
	full    map[string]string // why, by the pool
	unknown string            // why the API server could not tell; "" when it could
	last    string            // what was said last
}

// acquire acquires the permits that a pod needs and reports whether its request may be sent. When the API
// server cannot tell, a soft eviction is not sent, and a hard one is sent without a permit, because
// the kernel does not wait.
func (r *run) acquire(ctx context.Context, attempt *decide.Attempt) bool {
	p, pod, limits := &r.permits, attempt.Entry.Pod, r.plan.Permits
	needs := limits.Of(pod)
	if p.from == nil || len(needs) == 0 {
		return true
	}
	if slices.ContainsFunc(needs, func(pool pools.Pool) bool { return p.full[pool.Name] != "" }) {
		return false
	}
	if p.unknown != "" {
		return r.goesOn(pod)
	}
	answer := p.from.Acquire(ctx, permits.Request{Pod: pod, Limits: limits, Lasts: lasts(attempt), DryRun: r.plan.Decision.DryRun})
	if r.stops(ctx) {
		p.from.Release(pod.UID)
		return false
	}
	switch answer.Verdict {
	case permits.Granted:
		return true
	case permits.Full:
		if p.full == nil {
			p.full = map[string]string{}
		}
		p.full[answer.Pool.Name] = fmt.Sprintf("%s has no free permit of %d: %s", told(answer.Pool), answer.Pool.Size, answer.Detail)
		r.notePermit(p.full[answer.Pool.Name])
		return false
	default:
		p.unknown = "whether " + told(answer.Pool) + " has a free permit is not known: " + answer.Detail
		return r.goesOn(pod)
	}
}

// told names a pool in a message.
func told(pool pools.Pool) string {
	if pool.Name == pools.Cluster {
		return "the cluster"
	}
	return pool.Name
}

// goesOn reports whether a request is sent although it is not known whether there is a permit.
func (r *run) goesOn(pod *rank.Pod) bool {
	if r.plan.Decision.Pressure.Threshold.Hard {
		r.notePermit(pod.Key() + " is evicted without a permit, because the pressure is hard: " + r.permits.unknown)
		return true
	}
	r.notePermit(pod.Key() + " is not evicted, because the pressure is soft: " + r.permits.unknown)
	return false
}

func (r *run) notePermit(text string) {
	r.permits.last = text
	r.note(text)
}

// release releases the permits of a pod that stays. A pod whose request is in doubt may be in flight
// and keeps its permits.
func (r *run) release(attempt *decide.Attempt) {
	if o := attempt.Result.Outcome; r.permits.from != nil && !o.Accepted() && o != evict.Unconfirmed {
		r.permits.from.Release(attempt.Entry.Pod.UID)
	}
}

// noPermit returns why a request was not sent for want of a permit; "" when none was missing.
func (r *run) noPermit() string {
	p := &r.permits
	if len(p.full) == 0 && (p.unknown == "" || r.plan.Decision.Pressure.Threshold.Hard) {
		return ""
	}
	return p.last // others add notes too
}

// reportPermits takes what was found out about permits to the report.
func (r *run) reportPermits() {
	r.report.NoPermit, r.report.PermitsUnknown = r.permits.full, r.permits.unknown
	if why := r.noPermit(); why != "" && r.report.Hold == decide.HoldNone {
		r.hold(decide.HoldNoPermit, why)
	}
}

// lasts returns how long a victim may need a permit: until its request is answered, then its grace
// period, and the kubelet's clean-up.
func lasts(attempt *decide.Attempt) time.Duration {
	return evict.RequestTimeout + decide.LookTimeout + decide.GracePeriod(attempt.Grace()) + decide.CleanUp
}
