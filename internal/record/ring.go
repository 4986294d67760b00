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
	mu   sync.Mutex
	kept []kept // the oldest first
}

// kept is a decision, and what is asked about it.
type kept struct {
	id      uint64
	at      threshold
	hold    decide.Hold // HoldNone where it acted
	repeats int         // equal holds before it that were left out
	pods    []string    // UIDs of those that it tried, or would have tried next
	text    json.RawMessage
}

// add keeps a line and drops the oldest one over ringSize. A hold that says again
// what the last decision about that threshold said takes its place: otherwise an
// hour of the same hold would push out the evictions before it.
func (r *ring) add(d *decide.Decision, line fields) {
	k := kept{id: d.ID, at: thresholdOf(&d.Pressure), hold: d.Hold}
	for i := range d.Attempts {
		k.pods = append(k.pods, d.Attempts[i].Entry.Pod.UID)
	}
	for _, e := range next(d) {
		k.pods = append(k.pods, e.Pod.UID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, last := range slices.Backward(r.kept) {
		if last.at != k.at {
			continue
		}
		if k.hold != decide.HoldNone && last.hold == k.hold {
			k.repeats = last.repeats + 1
			r.kept = slices.Delete(r.kept, i, i+1)
		}
		break
	}
	k.text = line.some("repeats", k.repeats).json()
	r.kept = append(slices.Delete(r.kept, 0, max(0, len(r.kept)+1-ringSize)), k)
}

// lastAbout returns the ID of the last decision that tried a pod, or would have tried it next; nil
// where there is none.
func (r *ring) lastAbout(uid string) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range slices.Backward(r.kept) {
		if slices.Contains(k.pods, uid) {
			return &k.id
		}
	}
	return nil
}

// newestFirst returns a copy; it is not nil.
func (r *ring) newestFirst() []json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := []json.RawMessage{}
	for _, k := range slices.Backward(r.kept) {
		lines = append(lines, k.text)
	}
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
