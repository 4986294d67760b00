package cooldown

import (
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// triedFor is how long a pod that was tried in a pressure waits for the other candidates at
// most: as long as the longest back-off after a refusal.
const triedFor = 10 * time.Minute

// tried is which pods a row of stale plans in one incident has tried. A pod that was tried is
// not retried before the row ends: back-offs begin at seconds, and the first of the ranking
// would be retried again and again and the last never tried. The zero value has tried no pod.
type tried struct {
	incident string // its ID
	refused  map[string]attempt
}

// attempt is a refusal, and until when it keeps its pod out of the row.
type attempt struct {
	outcome evict.Outcome
	until   time.Time
}

// of returns the refusal of a pod that was tried in the incident, and false for another pod.
func (r *tried) of(uid, incident string, now time.Time) (attempt, bool) {
	last, is := r.refused[uid]
	return last, is && r.incident == incident && now.Before(last.until)
}

// observe adds the answers to a plan that ended for its age. Any other ends the row.
func (r *tried) observe(report *Report) {
	if r.incident != report.Incident || !report.Stale {
		*r = tried{incident: report.Incident}
	}
	if !report.Stale {
		return
	}
	if r.refused == nil {
		r.refused = map[string]attempt{}
	}
	for _, a := range report.Answers {
		r.refused[a.Pod.UID] = attempt{a.Result.Outcome, report.Decided.Add(triedFor)}
	}
}
