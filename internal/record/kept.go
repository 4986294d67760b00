package record

import (
	"encoding/json"
	"slices"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

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
		if last.signal != k.signal {
			continue
		}
		if k.hold != decide.HoldNone && last.hold == k.hold {
			r.kept = slices.Delete(r.kept, i, i+1)
		}
		break
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
