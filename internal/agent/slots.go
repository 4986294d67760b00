package agent

import (
	"time"

	"github.com/evictd/evictd/internal/brake"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/pkg/rank"
)

// slotRest is how long a workload that had no free slot is left alone, and half as long
// again at random: a slot becomes free when a victim ends, which takes seconds.
const slotRest = 2 * time.Second

// slotless remembers whom the brake had no slot for. Its zero value remembers nothing.
type slotless struct {
	until   map[string]time.Time // by the workload
	details map[string]string
	// unknown is until when soft evictions are not tried again after the API server could
	// not tell, for whatever workload.
	unknown time.Time
	why     string
}

// noteSlots remembers for which workloads there was no permit.
func (a *Agent) noteSlots(r *execute.Report, now time.Time) {
	if len(r.NoPermit) > 0 || r.PermitsUnknown != "" {
		rest := slotRest + time.Duration(a.options.Random()*float64(slotRest)/2)
		a.slotless.note(r, now, now.Add(rest))
	}
}

// note remembers what a report says.
func (s *slotless) note(r *execute.Report, now, until time.Time) {
	for workload, end := range s.until {
		if !now.Before(end) {
			delete(s.until, workload)
			delete(s.details, workload)
		}
	}
	if s.until == nil {
		s.until, s.details = map[string]time.Time{}, map[string]string{}
	}
	for workload, detail := range r.NoPermit {
		s.until[workload], s.details[workload] = until, detail
	}
	if r.PermitsUnknown != "" {
		s.unknown, s.why = until, r.PermitsUnknown
	}
}

// waits says why a pod is not asked for now; "" when it may be.
func (s *slotless) waits(pod *rank.Pod, hard bool, now time.Time) string {
	workload := brake.WorkloadOf(pod)
	switch {
	case workload == "":
		return ""
	case now.Before(s.until[workload]):
		return s.details[workload]
	case !hard && now.Before(s.unknown):
		return s.why
	default:
		return ""
	}
}

// withholdSlotless withholds those whose workload had no free slot a moment ago.
func (a *Agent) withholdSlotless(d *decide.Decision) (decide.Hold, string) {
	if a.policy.SlotsPerWorkload == 0 {
		return decide.HoldNone, ""
	}
	hard, now, detail := d.Pressure.Threshold.Hard, d.Pressure.SampleTime, ""
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		why := a.slotless.waits(e.Pod, hard, now)
		if why == "" {
			return rank.NotProtected
		}
		e.Detail, detail = why, why
		return rank.ProtectedSlotless
	})
	if len(d.Ranking.Candidates) > 0 {
		return decide.HoldNone, ""
	}
	return decide.HoldNoSlot, "the last of them: " + detail
}

// releaseSlots gives back the slots of victims that have ended, and keeps those of victims
// that are leaving. One that is booked may run although the API server has forgotten it;
// one that is listed may stay, because its request was not heard.
func (a *Agent) releaseSlots() {
	if a.options.Brake == nil || !a.options.Pods.Synced() {
		return
	}
	a.options.Brake.Release(
		func(uid string) bool { return a.victims.Booked(uid) || a.listed()[uid] },
		func(uid string) bool { return a.victims.Booked(uid) || a.terminating(uid) },
	)
}
