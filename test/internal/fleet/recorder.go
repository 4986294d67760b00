package fleet

import (
	"sync"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/pkg/pressure"
)

// recorder is an agent's, which knows only whether the agent acts.
type recorder struct {
	mu    sync.Mutex
	state acting.State
	since time.Time // zero before the agent's first answer
}

// Acting notes whether the agent acts, and since when.
func (r *recorder) Acting(s acting.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s != r.state || r.since.IsZero() {
		r.state, r.since = s, time.Now()
	}
}

// acts returns it.
func (r *recorder) acts() (acting.State, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.since
}

// The other methods of the recorder of the agent are not needed here.

// Decision does nothing.
func (*recorder) Decision(*decide.Decision) {}

// Number does nothing.
func (*recorder) Number(*decide.Decision) {}

// Sample does nothing.
func (*recorder) Sample(*pressure.Sample, *pressure.Verdict) {}

// Tick does nothing.
func (*recorder) Tick(time.Time, time.Duration) {}

// Intent does nothing.
func (*recorder) Intent(*decide.Decision, *decide.Attempt) {}

// Ledger does nothing.
func (*recorder) Ledger(time.Time, []decide.Victim, int, int) {}

// Incidents does nothing.
func (*recorder) Incidents(_, _ []incident.Incident) {}

// VictimEnded does nothing.
func (*recorder) VictimEnded(*decide.Ended) {}

// Failed does nothing.
func (*recorder) Failed(string, error) {}
