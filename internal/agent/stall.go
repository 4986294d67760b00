package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// stallReadings are two readings of the pods' stalls, so that what happened between
// them can be told from what was long ago. The zero value has none.
type stallReadings struct {
	before, last stallReading
	// matters are booked pods that others end and that hold a share that matters, by UID; ended
	// is when one of those, or a victim of evictd's, ended last. See stallshare.go.
	matters map[string]bool
	ended   time.Time
}

type stallReading struct {
	at    time.Time // zero: never read
	byUID map[string]usage.Stall
	err   error
}

// windowOf returns the window over which a stall is measured; 0 for other signals,
// which are measured at a moment.
func windowOf(signal pressure.Signal, seen pressure.Observation) time.Duration {
	if signal != pressure.MemoryStall {
		return 0
	}
	return time.Duration(seen.Capacity) * time.Microsecond
}

// reachBack returns how far back a signal's reading reaches: a window in which the
// last victim still lived says nothing of the time after it.
func reachBack(p *pressure.Pressure) time.Duration { return windowOf(p.Threshold.Signal, p.Observed) }

// noteStalls reads the pods' stalls while the node's are at least half of what the
// threshold allows, twice a window, so that both readings are there when it is met. A
// node that does not stall pays nothing.
func (a *Agent) noteStalls(sample *pressure.Sample) {
	const signal = pressure.MemoryStall
	seen := sample.Of(signal)
	if seen.State != pressure.Known {
		return
	}
	for i := range a.policy.Thresholds {
		t := &a.policy.Thresholds[i]
		allowed := seen.Capacity - t.Quantity.Of(seen.Capacity)
		if t.Signal != signal || seen.Capacity-seen.Available < allowed/2 {
			continue
		}
		if half := windowOf(signal, seen) / 2; a.stalls.last.at.IsZero() || sample.Time.Sub(a.stalls.last.at) >= half {
			a.stalls.note(a.readStalls(sample.Time))
		}
		return
	}
}

func (a *Agent) readStalls(now time.Time) stallReading {
	stalls, err := a.options.Cgroups.Stalls()
	if err != nil {
		a.options.Recorder.ReadError(SourceUsage, err)
	}
	reading := stallReading{at: now, byUID: make(map[string]usage.Stall, len(stalls)), err: err}
	for _, s := range stalls {
		if !a.simulated.has(s.UID) { // one that counts as gone stalls no more
			reading.byUID[s.UID] = s
		}
	}
	return reading
}

func (s *stallReadings) note(r stallReading) { s.before, s.last = s.last, r }

// stalledByItself holds a decision about stalls back while only pods stall that met
// limits of their own: another pod's end would not help them. The kernel weighs the
// node's figure by busy CPUs, so a pod's cannot be subtracted from it. Instead, where
// a pod met its limit, another one must have stalled as long as the threshold asks.
func (a *Agent) stalledByItself(p *pressure.Pressure, pods []*nodepods.Pod) (decide.Hold, string) {
	if p.Threshold.Signal != pressure.MemoryStall {
		return decide.HoldNone, ""
	}
	window := windowOf(p.Threshold.Signal, p.Observed)
	before := &a.stalls.before
	if before.at.IsZero() || p.SampleTime.Sub(before.at) > 2*window {
		return decide.HoldUsageUnknown, "measuring which pods stall"
	}
	if hold, detail := a.awaitUnreadStalls(p, pods); hold != decide.HoldNone {
		return hold, detail
	}
	allowed := float64(p.Observed.Capacity-p.Line) / float64(p.Observed.Capacity)
	bound, others := a.stalls.split(allowed, pods)
	if len(bound) == 0 || others {
		return decide.HoldNone, ""
	}
	return decide.HoldOwnLimits, strings.Join(bound, ", ") + " met limits of their own, and no other pod stalled"
}

// awaitUnreadStalls holds a decision while it cannot be told which pods stall: for a moment
// where that is so of a few of them, see unread.go.
func (a *Agent) awaitUnreadStalls(p *pressure.Pressure, pods []*nodepods.Pod) (decide.Hold, string) {
	var missing []string
	for _, fault := range []error{a.stalls.before.err, a.stalls.last.err} {
		var unread *usage.UnreadError
		switch {
		case fault == nil:
		case errors.As(fault, &unread):
			missing = append(missing, a.failed(nil, unread, pods)...)
		default:
			return decide.HoldUsageUnknown, fmt.Sprintf("which pods stall could not be read: %v", fault)
		}
	}
	slices.Sort(missing)
	return a.awaitUnread(p, pods, slices.Compact(missing))
}

// split returns the pods that met a limit of their own between the two readings, by
// name, and whether another pod stalled for at least that share of the time.
func (s *stallReadings) split(share float64, pods []*nodepods.Pod) (bound []string, others bool) {
	enough := share * float64(s.last.at.Sub(s.before.at).Microseconds())
	for uid, now := range s.last.byUID {
		before := s.before.byUID[uid] // the zero value for a pod that is new
		if now.LimitHits > before.LimitHits {
			bound = append(bound, nameOf(uid, pods))
			continue
		}
		if now.WaitedKnown && float64(now.Waited-before.Waited) >= enough {
			others = true
		}
	}
	slices.Sort(bound)
	return bound, others
}

// nameOf returns namespace and name of the pod whose cgroup it is, else the UID in
// the cgroup's name.
func nameOf(uid string, pods []*nodepods.Pod) string {
	for _, pod := range pods {
		if pod.CgroupUID == uid {
			return pod.Key()
		}
	}
	return uid
}
