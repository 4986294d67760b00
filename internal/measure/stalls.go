package measure

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

// stallReadings are two readings of the pods' stalls, so that recent stalls can be distinguished
// from older ones. The zero value has none.
type stallReadings struct {
	before, last stallReading
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

// ReachBack returns how far back a signal's reading reaches: a window in which the last victim was
// still running does not show the time after it.
func ReachBack(p *pressure.Pressure) time.Duration { return windowOf(p.Threshold.Signal, p.Observed) }

// ObserveStalls reads the pods' stalls while the node's are at least half of what the
// threshold allows, twice a window, so that both readings are there when it is met. A
// node that does not stall pays nothing. Pods that count as gone are left out.
func (m *Measurer) ObserveStalls(sample *pressure.Sample, thresholds []pressure.Threshold, gone func(uid string) bool) {
	const signal = pressure.MemoryStall
	seen := sample.Of(signal)
	if seen.State != pressure.Known {
		return
	}
	for i := range thresholds {
		t := &thresholds[i]
		allowed := seen.Capacity - t.Quantity.Of(seen.Capacity)
		if t.Signal != signal || seen.Capacity-seen.Available < allowed/2 {
			continue
		}
		if half := windowOf(signal, seen) / 2; m.stalls.last.at.IsZero() || sample.Time.Sub(m.stalls.last.at) >= half {
			m.stalls.before, m.stalls.last = m.stalls.last, m.readStalls(sample.Time, gone)
		}
		return
	}
}

func (m *Measurer) readStalls(now time.Time, gone func(uid string) bool) stallReading {
	stalls, err := m.options.Cgroups.Stalls()
	if err != nil {
		m.options.Fault(SourceUsage, err)
	}
	reading := stallReading{at: now, byUID: make(map[string]usage.Stall, len(stalls)), err: err}
	for _, s := range stalls {
		if !gone(s.UID) {
			reading.byUID[s.UID] = s
		}
	}
	return reading
}

// StalledByItself holds a decision about stalls while only pods stall that met limits of their own:
// another pod's end would not help them. The kernel weighs the node's figure by busy CPUs, so a
// pod's cannot be subtracted from it. Instead, when a pod met its limit, another pod must have
// stalled for as long as the threshold requires.
func (m *Measurer) StalledByItself(q *Query) (decide.Hold, string) {
	p := q.Pressure
	if p.Threshold.Signal != pressure.MemoryStall {
		return decide.HoldNone, ""
	}
	window := windowOf(p.Threshold.Signal, p.Observed)
	before := &m.stalls.before
	if before.at.IsZero() || p.SampleTime.Sub(before.at) > 2*window {
		return decide.HoldUsageUnknown, "measuring which pods stall"
	}
	if hold, detail := m.awaitUnreadStalls(q); hold != decide.HoldNone {
		return hold, detail
	}
	allowed := float64(p.Observed.Capacity-p.Line) / float64(p.Observed.Capacity)
	bound, others := m.stalls.split(allowed, q.Pods)
	if len(bound) == 0 || others {
		return decide.HoldNone, ""
	}
	return decide.HoldStalledWithinOwnLimits, strings.Join(bound, ", ") + " met limits of their own, and no other pod stalled"
}

// awaitUnreadStalls holds a decision while it is not known which pods stall: only for a moment when
// that is so for a few of them.
func (m *Measurer) awaitUnreadStalls(q *Query) (decide.Hold, string) {
	var missing []string
	for _, fault := range []error{m.stalls.before.err, m.stalls.last.err} {
		var unread *usage.UnreadError
		switch {
		case fault == nil:
		case errors.As(fault, &unread):
			missing = append(missing, m.failed(nil, unread, q.Pods)...)
		default:
			return decide.HoldUsageUnknown, fmt.Sprintf("which pods stall could not be read: %v", fault)
		}
	}
	slices.Sort(missing)
	return m.awaitUnread(q, slices.Compact(missing))
}

// split returns the pods that met a limit of their own between the two readings, by
// name, and whether another pod stalled for at least that share of the time.
func (s *stallReadings) split(share float64, pods []*nodepods.Pod) (bound []string, others bool) {
	enough := share * float64(s.last.at.Sub(s.before.at).Microseconds())
	for uid, now := range s.last.byUID {
		before := s.before.byUID[uid] // the zero value for a pod that is new
		if now.MetLimit(&before) {
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
