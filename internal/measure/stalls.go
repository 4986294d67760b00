package measure

import (
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// stallReading is one of the pods' stalls.
type stallReading struct {
	at    time.Time // zero: never read
	byUID map[string]usage.Stall
	err   error
}

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
		if sample.Time.Sub(m.stalls[1].at) >= decide.StallWindow(signal, seen)/2 {
			m.stalls = [2]stallReading{m.stalls[1], m.readStalls(sample.Time, gone)}
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

// Stalls returns what the two last readings show for a pressure of stalls; nothing for another.
func (m *Measurer) Stalls(s *decide.Situation) decide.Stalls {
	p := &s.Pressure
	if p.Threshold.Signal != pressure.MemoryStall {
		return decide.Stalls{}
	}
	known := decide.Stalls{Since: m.stalls[0].at}
	var missing []string
	for _, reading := range m.stalls {
		if unread := (*usage.UnreadError)(nil); errors.As(reading.err, &unread) {
			missing = append(missing, m.failed(nil, unread, s.Pods)...)
		} else if reading.err != nil {
			known.Err = reading.err
		}
	}
	slices.Sort(missing)
	known.Unread = m.unread(s, slices.Compact(missing))
	allowed := float64(p.Observed.Capacity-p.Line) / float64(p.Observed.Capacity)
	known.Bound, known.Others = split(m.stalls[0], m.stalls[1], allowed, s.Pods)
	return known
}

// split returns the pods that met a limit of their own between two readings, by
// name, and whether another pod stalled for at least that share of the time.
func split(first, last stallReading, share float64, pods []*nodepods.Pod) (bound []string, others bool) {
	enough := share * float64(last.at.Sub(first.at).Microseconds())
	for uid, now := range last.byUID {
		before := first.byUID[uid] // the zero value for a pod that is new
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
