package record

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/evictd/evictd/internal/decide"
)

// ringSize is how many decisions are kept. A line is about 1 KiB.
const ringSize = 64

// ring keeps the last decisions for readers on other goroutines. Its lines are
// never changed once they are in it.
type ring struct {
	mu    sync.Mutex
	lines []Line // the oldest first
}

// add keeps a line and drops the oldest one over ringSize. A hold that says again
// what the last decision about that threshold said takes its place: otherwise an
// hour of the same hold would push out the evictions before it.
func (r *ring) add(line Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.lines) - 1; i >= 0; i-- {
		last := &r.lines[i]
		if last.Signal != line.Signal || last.Kind != line.Kind {
			continue
		}
		if line.Verb == string(decide.Held) && last.Verb == line.Verb && last.Hold == line.Hold {
			line.Repeats = last.Repeats + 1
			r.lines = slices.Delete(r.lines, i, i+1)
		}
		break
	}
	if len(r.lines) == ringSize {
		r.lines = slices.Delete(r.lines, 0, 1)
	}
	r.lines = append(r.lines, line)
}

// lastAbout returns the ID of the last decision that tried a pod, or would have tried it next.
func (r *ring) lastAbout(uid string) (id uint64, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.lines) - 1; i >= 0; i-- {
		if r.lines[i].names(uid) {
			return r.lines[i].ID, true
		}
	}
	return 0, false
}

// names reports whether a line has a pod among the requests or behind them.
func (l *Line) names(uid string) bool {
	return slices.ContainsFunc(l.Attempts, func(a AttemptLine) bool { return a.UID == uid }) ||
		slices.ContainsFunc(l.RunnersUp, func(c CandidateLine) bool { return c.UID == uid })
}

// newestFirst returns a copy.
func (r *ring) newestFirst() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := append([]Line{}, r.lines...) // an empty array, not null
	slices.Reverse(lines)
	return lines
}

// ServeHTTP writes the decisions as a JSON array, the newest first.
func (r *ring) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text, err := json.MarshalIndent(r.newestFirst(), "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the reader has disconnected
}
