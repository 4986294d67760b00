package record_test

import (
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// askedHost counts the queries to it, and knows the processes after so many of them.
type askedHost struct{ pending, asked, processes int }

func (h *askedHost) Memory() decide.Breakdown {
	h.asked++
	return decide.Breakdown{"Anonymous": int64(h.asked)}
}

func (h *askedHost) Processes(time.Time) ([]decide.Process, bool) {
	h.processes++
	return []decide.Process{{Name: "leak"}}, h.processes <= h.pending
}

// decisionAbout is one of a hold; HoldNone is one that evicts a pod.
func decisionAbout(signal pressure.Signal, hard bool, at time.Duration, why decide.Hold) *decide.Decision {
	p := pressureOn(signal, pressure.Fraction(.05), 1, 100)
	p.Threshold.Hard = hard
	d := &decide.Decision{Time: start.Add(at), Pressure: p, Hold: why}
	if why == decide.HoldNone {
		d.Attempts = decision().Attempts[1:]
	}
	return d
}

// A recorded decision about memory reads what uses it. A hold that lacks candidates is recorded when the
// processes outside the pods are known, and one about a disk keeps its own figures.
func TestHoldWaitsForTheProcessesOutsideThePods(t *testing.T) {
	t.Parallel()
	r, h := newRig(t), &askedHost{pending: 2}
	r.settings.Host = h
	r.start()
	var d *decide.Decision
	for at := range 3 {
		d = decisionAbout(pressure.MemoryAvailable, true, time.Duration(at)*time.Second, decide.HoldNoCandidates)
		if r.Recorder.Decision(d); at < 2 && len(r.lines(t)) > 0 {
			t.Errorf("recorded before the processes are known")
		}
	}
	if len(r.lines(t)) != 1 || h.asked != 1 || d.Outside[0].Name != "leak" || d.Breakdown["Anonymous"] != 1 {
		t.Errorf("asked %d times for %+v", h.asked, d)
	}
	disk := decisionAbout(pressure.NodeFSAvailable, true, 0, decide.HoldNoCandidates)
	disk.Breakdown = decide.Breakdown{decide.PartLogs: 7}
	if r.Recorder.Decision(disk); h.asked != 1 || h.processes != 3 || disk.Breakdown[decide.PartLogs] != 7 {
		t.Errorf("asked %d and %d times about a disk: %+v", h.asked, h.processes, disk)
	}
	acted := decisionAbout(pressure.MemoryAvailable, true, 0, decide.HoldNone)
	if r.Recorder.Decision(acted); acted.Outside != nil || h.processes != 3 || acted.Breakdown["Anonymous"] != 2 {
		t.Errorf("an eviction waits for the host: %+v", acted)
	}
}

// Only a decision about the whole node's memory reads what the host uses of it.
func TestAsksHostOfNodeMemoryAlone(t *testing.T) {
	t.Parallel()
	for _, signal := range pressure.Signals() {
		r, h := newRig(t), &askedHost{}
		r.settings.Host = h
		r.start()
		r.Decision(decisionAbout(signal, true, 0, decide.HoldNone))
		want := slices.Contains([]pressure.Signal{pressure.MemoryAvailable, pressure.KubeletMemoryAvailable, pressure.MemoryStall}, signal)
		if got := h.asked == 1; got != want {
			t.Errorf("%s: %v, want %v", signal, got, want)
		}
	}
}
