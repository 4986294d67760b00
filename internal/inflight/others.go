package inflight

import (
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// OthersUntil returns until when a pressure relies on what others are ending: one clock for the
// incident, from the moment the threshold was met or evictd's last victim ended. After that only
// evictd's own victims count: pods that end one after the other, or never, must not hold a node.
func (t *Tracker) OthersUntil(p *pressure.Pressure) time.Time {
	since := p.Since
	if t.lastEnd.After(since) {
		since = t.lastEnd
	}
	return since.Add(HardPatience)
}

// For returns what is in flight as a pressure sees it, the oldest first, and what has ended last.
// What others are ending counts no longer than [Tracker.OthersUntil].
func (t *Tracker) For(p *pressure.Pressure, tooLate TooLate) []Booking {
	all, until := t.All(), t.OthersUntil(p)
	for i := range all {
		if all[i].Signal == "" {
			all[i].Deadline = earlier(all[i].Deadline, until)
		}
	}
	return append(all, t.returning.of(p, tooLate)...)
}
