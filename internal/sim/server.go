package sim

import (
	"errors"
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// answers is the API server's answer to an eviction.
func (p *play) answers(r evict.Request) evict.Result {
	l := p.lives[r.UID]
	if p.refusal != nil {
		return *p.refusal
	}
	if l == nil || p.pods[r.UID] == nil {
		return evict.Result{Outcome: evict.Gone}
	}
	if most := l.of.MaxUnavailable; most != nil && !r.Delete && p.pods[r.UID].leaving == nil {
		if l.of.replicas()-p.available(l.of) >= *most {
			return evict.Result{Outcome: evict.BlockedByBudget, Budget: l.of.Name, Message: "Cannot evict pod as it would violate the pod's disruption budget."}
		}
	}
	return evict.Result{Outcome: taken(r)}
}

// available returns how many pods of a workload a budget counts: they run and do not terminate.
func (p *play) available(w *Workload) (pods int32) {
	for uid, l := range p.lives {
		if pod := p.pods[uid]; l.of == w && pod != nil && pod.leaving == nil && !pod.noCgroup && !time.Now().Before(l.down) {
			pods++
		}
	}
	return pods
}

// fault begins or ends a fault of the API server.
func (p *play) fault(f Fault, begins bool) {
	what := map[Fault]string{
		FaultDown: "the API server does not answer", FaultSlow: "the API server answers after four seconds",
		FaultThrottled: "the API server refuses requests, as it is overloaded", FaultDenied: "the API server denies evictions",
	}[f]
	if !begins {
		what = "the API server is in order again"
	}
	p.say("", "%s", what)
	p.slow, p.unlooked, p.refusal = 0, nil, nil
	switch {
	case !begins:
	case f == FaultDown:
		p.unlooked = errors.New("connection refused")
		p.refusal = &evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Message: "connection refused"}
	case f == FaultSlow:
		p.slow = 4 * time.Second
	case f == FaultThrottled:
		p.refusal = &evict.Result{Outcome: evict.Throttled, RetryAfter: time.Second}
	case f == FaultDenied:
		p.refusal = &evict.Result{Outcome: evict.Denied, Message: "denied"}
	}
}
