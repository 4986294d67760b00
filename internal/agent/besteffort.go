package agent

import (
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// bestEffortRest is how long nobody goes past a budget after that came to nothing. The
// budgets are read from the API server, and near a threshold there are a hundred ticks a
// second.
const bestEffortRest = 10 * time.Second

// mayGoPastBudgets reports whether a decision about the pressure may go past a budget.
func (a *Agent) mayGoPastBudgets(p *pressure.Pressure) bool {
	return a.policy.BestEffort && p.Threshold.Hard && !p.SampleTime.Before(a.resting)
}

// noteBestEffort lets the API server rest after going past a budget came to nothing.
func (a *Agent) noteBestEffort(came decide.BestEffort, now time.Time) {
	if came != decide.BestEffortNone && came != decide.BestEffortDeleted {
		a.resting = now.Add(bestEffortRest)
	}
}
