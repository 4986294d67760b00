package cooldown

import (
	"fmt"
	"time"
)

// jitter is what the first soft eviction of an incident waits for.
type jitter struct {
	incident string // its ID
	until    time.Time
}

// jittered reports whether a pressure waits for soft jitter.
func (t *Tracker) jittered(in Pressure) bool {
	return !in.Hard && t.limiter.limits.SoftJitter > 0
}

// Draw decides at random how long the first soft eviction of an incident waits, once for each
// incident.
func (t *Tracker) Draw(in Pressure, now time.Time) {
	if j := &t.jitters[in.Signal]; t.jittered(in) && (j.incident != in.Incident || j.until.IsZero()) {
		wait := time.Duration(t.random() * float64(t.limiter.limits.SoftJitter))
		*j = jitter{incident: in.Incident, until: now.Add(wait)}
	}
}

// Jitter returns why the first soft eviction of an incident waits, by what [Tracker.Draw] drew.
func (t *Tracker) Jitter(in Pressure, now time.Time) (Reason, bool) {
	j := &t.jitters[in.Signal]
	if !t.jittered(in) || j.incident != in.Incident || !now.Before(j.until) {
		return Reason{}, false
	}
	return Reason{Kind: SoftJitter, Until: j.until, Detail: fmt.Sprintf("another %v of a random part of limits.softJitter, %v",
		j.until.Sub(now).Round(100*time.Millisecond), t.limiter.limits.SoftJitter)}, true
}
