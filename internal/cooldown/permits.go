package cooldown

import (
	"maps"
	"time"
)

// permitBackOff is how long a workload that had no free permit is not tried again, and half as
// long again at random: a permit becomes free when a victim ends, which takes seconds.
const permitBackOff = 2 * time.Second

// permits remembers which workloads had no free permit. Its zero value remembers none.
type permits struct {
	full map[string]noPermit // by workload
	// unknown holds soft evictions of all workloads after the API server could not tell whether a
	// permit is free.
	unknown noPermit
}

// noPermit is why there was no permit, and until when that is relied on.
type noPermit struct {
	until time.Time
	why   string
}

// observe remembers what a plan met.
func (p *permits) observe(r *Report, now time.Time, random func() float64) {
	if len(r.NoPermit) == 0 && r.Unknown == "" {
		return
	}
	until := now.Add(permitBackOff + time.Duration(random()*float64(permitBackOff)/2))
	maps.DeleteFunc(p.full, func(_ string, n noPermit) bool { return !now.Before(n.until) })
	if p.full == nil {
		p.full = map[string]noPermit{}
	}
	for workload, why := range r.NoPermit {
		p.full[workload] = noPermit{until, why}
	}
	if r.Unknown != "" {
		p.unknown = noPermit{until, r.Unknown}
	}
}

// waits returns why a pod of the workload waits; "" is a pod that needs no permit.
func (p *permits) waits(workload string, hard bool, now time.Time) (Reason, bool) {
	why := p.full[workload]
	if !now.Before(why.until) && !hard {
		why = p.unknown
	}
	if workload == "" || !now.Before(why.until) {
		return Reason{}, false
	}
	return Reason{Kind: NoPermit, Until: why.until, Detail: why.why}, true
}
