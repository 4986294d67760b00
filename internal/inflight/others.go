package inflight

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// OthersUntil returns until when a pressure relies on what others are ending: one clock for the
// incident, from the moment the threshold was first met in it or evictd's last victim ended. After that
// only evictd's own victims count: pods that end one after the other, or never, must not hold a node.
func (t *Tracker) OthersUntil(met time.Time) time.Time {
	since := met
	if t.lastEnd.After(since) {
		since = t.lastEnd
	}
	return since.Add(decide.HardPatience)
}

// For returns what is in flight as a pressure sees it, the oldest first, and what has ended last.
// What others are ending counts no longer than [Tracker.OthersUntil]; met is when the threshold was
// first met in the incident.
func (t *Tracker) For(p *pressure.Pressure, met time.Time, tooLate TooLate) []decide.Victim {
	all, until := t.All(), t.OthersUntil(met)
	for i := range all {
		if all[i].Signal == "" {
			all[i].Deadline = earlier(all[i].Deadline, until)
		}
	}
	return append(all, t.returning.of(p, tooLate)...)
}
