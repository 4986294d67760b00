package agent

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// A bad release puts two hundred nodes under pressure in the same second, and each of
// them is right to evict. The first soft eviction of an incident waits for a random part of
// limits.softJitter, so that they come one after the other: the API server, the budgets
// and the scheduler see the first before the last, and whoever is on call sees what
// happens before it has happened everywhere. Where time is short nothing waits: a hard
// threshold, met meanwhile or not, goes at once, and so does a soft one whose grace
// period was cut because the hard one is near.

// jitter is what the first soft eviction of an incident waits for.
type jitter struct {
	incident string // its ID
	until    time.Time
}

// softJitter holds the first soft eviction of an incident back for a moment.
func (a *Agent) softJitter(p *pressure.Pressure) (decide.Hold, string) {
	if p.Threshold.Hard || p.GraceCut || a.policy.SoftJitter <= 0 {
		return decide.HoldNone, ""
	}
	j := &a.jitters[p.Threshold.Signal]
	if id := a.incidentOf(p); j.incident != id || j.until.IsZero() {
		wait := time.Duration(a.options.Random() * float64(a.policy.SoftJitter))
		*j = jitter{incident: id, until: p.SampleTime.Add(wait)}
	}
	if !p.SampleTime.Before(j.until) {
		return decide.HoldNone, ""
	}
	return decide.HoldJitter, fmt.Sprintf("another %v of a random part of limits.softJitter, %v", wording.Rounded(j.until.Sub(p.SampleTime)), a.policy.SoftJitter)
}
