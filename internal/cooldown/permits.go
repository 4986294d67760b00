package cooldown

import (
	"maps"
	"time"

	"github.com/evictd/evictd/internal/pools"
	"github.com/evictd/evictd/pkg/rank"
)

// permitBackOff is how long a pool that had no free permit is not tried again, and half as
// long again at random: a permit becomes free when a victim ends, which takes seconds.
const permitBackOff = 2 * time.Second

// permits remembers which pools had no free permit. Its zero value has no limits and remembers none.
type permits struct {
	limits pools.Limits
	full   map[string]noPermit // by pool
	// unknown holds soft evictions of all pools after the API server could not tell whether a
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
	for pool, why := range r.NoPermit {
		p.full[pool] = noPermit{until, why}
	}
	if r.Unknown != "" {
		p.unknown = noPermit{until, r.Unknown}
	}
}

// waits returns why a pod waits.
func (p *permits) waits(pod *rank.Pod, hard bool, now time.Time) (Reason, bool) {
	for _, pool := range p.limits.Of(pod) {
		why := p.full[pool.Name]
		if !now.Before(why.until) && !hard {
			why = p.unknown
		}
		if now.Before(why.until) {
			return Reason{Kind: NoPermit, Until: why.until, Detail: why.why}, true
		}
	}
	return Reason{}, false
}
