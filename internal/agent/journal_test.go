package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// askedHost counts the queries to it, and answers after so many of them.
type askedHost struct{ pending, asked, processes int }

func (h *askedHost) MemoryUsed(string, time.Time) decide.Breakdown {
	h.asked++
	return decide.Breakdown{"Anonymous": int64(h.asked)}
}

func (h *askedHost) Processes(string, time.Time) ([]decide.Process, bool) {
	h.processes++
	if h.processes <= h.pending {
		return nil, true
	}
	return []decide.Process{{Name: "leak"}}, false
}

func decisionAbout(signal pressure.Signal, hard bool, at time.Duration) *decide.Decision {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(at)
	return &decide.Decision{Time: now, Pressure: pressure.Pressure{SampleTime: now, Threshold: pressure.Threshold{Signal: signal, Hard: hard}}}
}

// A hold is recorded when it begins, when it changes and after 30 s, for each signal by itself;
// what acted is always recorded, and the hold after it too.
func TestHoldIsSaidOnce(t *testing.T) {
	t.Parallel()
	const memory, disk = pressure.MemoryAvailable, pressure.NodeFSAvailable
	var recorded []decide.Decision
	j := journal{to: func(d *decide.Decision) { recorded = append(recorded, *d) }}
	for n, step := range []struct {
		at     time.Duration
		signal pressure.Signal
		hard   bool
		why    decide.Hold // HoldNone acts
		said   bool
	}{
		{0, memory, true, decide.HoldAwaitingNewerSample, true},
		{time.Second, memory, true, decide.HoldAwaitingNewerSample, false},
		{time.Second, disk, true, decide.HoldAwaitingNewerSample, true},
		{2 * time.Second, memory, true, decide.HoldLimitReached, true},
		{3 * time.Second, memory, false, decide.HoldLimitReached, true},
		{3*time.Second + SayAgainAfter - 1, memory, false, decide.HoldLimitReached, false},
		{3*time.Second + SayAgainAfter, memory, false, decide.HoldLimitReached, true},
		{34 * time.Second, memory, false, decide.HoldNone, true},
		{34 * time.Second, memory, false, decide.HoldLimitReached, true},
		{34 * time.Second, memory, false, decide.HoldNone, true},
		{34 * time.Second, disk, true, decide.HoldLimitReached, true},
	} {
		d, before := decisionAbout(step.signal, step.hard, step.at), len(recorded)
		if step.why == decide.HoldNone {
			d.Verb = decide.Acted
			j.number(d)
			j.record(d)
		} else {
			d.Hold, d.Detail = step.why, "detail"
			j.hold(d)
		}
		if said := len(recorded) > before; said != step.said {
			t.Errorf("step %d: recorded %v, want %v", n, said, step.said)
		} else if last := recorded[len(recorded)-1]; said && (last.Hold != step.why || step.why != decide.HoldNone && (last.Verb != decide.Held || last.Detail != "detail")) {
			t.Errorf("step %d: recorded %+v", n, last)
		}
	}
	for n := range recorded {
		if recorded[n].ID != uint64(n+1) {
			t.Errorf("decision %d has the ID %d", n, recorded[n].ID)
		}
	}
}

// TestDecisionAsksTheHostOnce: a recorded decision about memory reads once what uses the memory;
// one that is not recorded never does. A hold that lacks candidates is recorded when the processes
// outside the pods are known.
func TestDecisionAsksTheHostOnce(t *testing.T) {
	t.Parallel()
	var recorded []decide.Decision
	h := &askedHost{pending: 2}
	j := journal{to: func(d *decide.Decision) { recorded = append(recorded, *d) }, host: h}
	for at := range 5 {
		d := decisionAbout(pressure.MemoryAvailable, true, time.Duration(at)*time.Second)
		d.Hold = decide.HoldNoCandidates
		j.hold(d)
	}
	if len(recorded) != 1 || h.asked != 1 || h.processes != 3 || recorded[0].Outside[0].Name != "leak" || recorded[0].Breakdown["Anonymous"] != 1 {
		t.Errorf("asked %d and %d times for %+v", h.asked, h.processes, recorded)
	}
	disk := decisionAbout(pressure.NodeFSAvailable, true, 0)
	disk.Breakdown, disk.Hold = decide.Breakdown{decide.PartLogs: 7}, decide.HoldNoCandidates
	if j.hold(disk); h.asked != 1 || h.processes != 3 || recorded[1].Breakdown[decide.PartLogs] != 7 {
		t.Errorf("asked %d and %d times about a disk: %+v", h.asked, h.processes, recorded[1])
	}
}

// TestAsksHostOfNodeMemoryAlone: only a shortage of the whole node's memory reads what the host
// uses of it.
func TestAsksHostOfNodeMemoryAlone(t *testing.T) {
	t.Parallel()
	for _, signal := range pressure.Signals() {
		h := &askedHost{}
		(&journal{host: h}).follow(&decisionAbout(signal, true, 0).Pressure, "")
		want := slices.Contains([]pressure.Signal{pressure.MemoryAvailable, pressure.KubeletMemoryAvailable, pressure.MemoryStall}, signal)
		if got := h.asked == 1; got != want {
			t.Errorf("%s: %v, want %v", signal, got, want)
		}
	}
}
