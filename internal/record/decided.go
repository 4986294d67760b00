package record

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// Host reports what uses the node's memory.
type Host interface {
	// Memory returns where the memory is, in bytes; nil where that is not known. It reads one file.
	Memory() decide.Breakdown
	// Processes returns the largest processes outside the pods by a reading of the last half minute, nil
	// while they are not known, and whether one is under way, which takes a few seconds at most. It does
	// not wait.
	Processes(now time.Time) (largest []decide.Process, pending bool)
}

// Decision writes a decision down everywhere: each one that sent a request, and a hold when it begins,
// changes, or has lasted for [AgainAfter]. The recorder keeps nothing that belongs to the decision.
func (r *Recorder) Decision(d *decide.Decision) {
	if !r.isNews(d) {
		return
	}
	if r.asksHost(d) {
		d.Breakdown = r.settings.Host.Memory()
	}
	line := decisionLine(d)
	r.logger.Log(levelOf(d), "decision", line...)
	r.metrics.decided(d)
	r.keep(d, line)
	r.writeEvents(d)
}

// isNews reports whether a decision is to be recorded. What uses memory outside the pods is waited for,
// where no eviction would help: then a later decision is recorded in its place.
func (r *Recorder) isNews(d *decide.Decision) bool {
	pending, of := false, subject{"hold", d.Pressure.Threshold.Signal}
	if d.Hold.LacksCandidates() && r.asksHost(d) {
		d.Outside, pending = r.settings.Host.Processes(d.Time)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.Verb() != decide.Held {
		delete(r.said, of)
		return true
	}
	return !pending && r.said.say(of, string(d.Hold)+d.Pressure.Threshold.Kind(), d.Time)
}

// asksHost reports whether a decision is about memory of the whole node.
func (r *Recorder) asksHost(d *decide.Decision) bool {
	signal := d.Pressure.Threshold.Signal
	return r.settings.Host != nil && signal.Kind() == pressure.MemoryKind && signal != pressure.AllocatableMemoryAvailable
}

// mostKept is how many decisions are kept. A line is about 1 KiB.
const mostKept = 64

// kept is a decision that is kept for those who ask, as its line is in the log.
type kept struct {
	signal pressure.Signal
	hold   decide.Hold // HoldNone where it acted
	text   json.RawMessage
}

// keep keeps a decision in place of the oldest one, or, where it is a hold that says again what the last
// decision about its signal said, of that one: otherwise an hour of the same hold would push out the
// evictions before it.
func (r *Recorder) keep(d *decide.Decision, line fields) {
	k := kept{d.Pressure.Threshold.Signal, d.Hold, line.json()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, last := range slices.Backward(r.kept) {
		if last.signal == k.signal {
			if k.hold != decide.HoldNone && last.hold == k.hold {
				r.kept = slices.Delete(r.kept, i, i+1)
			}
			break
		}
	}
	r.kept = append(slices.Delete(r.kept, 0, max(0, len(r.kept)+1-mostKept)), k)
}

// LastDecisions returns the last decisions, the newest first.
func (r *Recorder) LastDecisions() (lines []json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range slices.Backward(r.kept) {
		lines = append(lines, k.text)
	}
	return lines
}
