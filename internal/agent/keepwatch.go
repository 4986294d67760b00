package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// lookEvery is how often a plan that is being carried out is compared with the pods that terminate
// since, and with a hard pressure that is not held any more: that reads all pods' cgroups, two
// milliseconds' work at most for 110 pods, and near a threshold there are a hundred ticks a second.
const lookEvery = 200 * time.Millisecond

// cancelWhenObsolete cancels what is being carried out when the node does not need it any
// more, needs it sooner, or cannot be read.
func (a *Agent) cancelWhenObsolete(ctx context.Context, d *decide.Decision, sample *pressure.Sample, verdict *pressure.Verdict) {
	switch why, giveWay := decide.Obsolete(d, &a.policy.Policy, sample, verdict); {
	case giveWay:
		a.executor.GiveWay(errors.New(why))
		return
	case why != "":
		a.executor.Cancel(errors.New(why))
		return
	}
	if verdict.Time.Sub(a.looked) < lookEvery {
		return
	}
	a.looked = verdict.Time
	if free := a.hardNotHeld(ctx, d, sample, verdict); free != nil {
		a.executor.GiveWay(fmt.Errorf("nothing holds the hard pressure of %v any more", free.Threshold.Signal))
		return
	}
	if enough := a.coveredMeanwhile(ctx, d, sample, verdict); enough != "" {
		a.executor.Cancel(errors.New(enough))
	}
}

// hardNotHeld returns a hard pressure, of any signal, that was held when a soft plan began and
// would evict now: for example because a reading is available again, or because the pods in flight
// no longer suffice. Nil when there is none. While a hard pressure is held, even permanently, soft
// plans continue.
func (a *Agent) hardNotHeld(ctx context.Context, d *decide.Decision, sample *pressure.Sample, verdict *pressure.Verdict) *pressure.Pressure {
	if d.Pressure.Threshold.Hard {
		return nil
	}
	for i := range verdict.Pressures {
		held := &verdict.Pressures[i]
		if !held.Threshold.Hard {
			continue
		}
		if _, _, hold, _ := a.consider(ctx, sample, *held); hold == decide.HoldNone {
			return held
		}
	}
	return nil
}

// coveredMeanwhile brings what is in flight up to date and says that it suffices; "" when it does
// not, or that is not known.
func (a *Agent) coveredMeanwhile(ctx context.Context, d *decide.Decision, sample *pressure.Sample, verdict *pressure.Verdict) string {
	planned := &d.Pressure.Threshold
	at := slices.IndexFunc(verdict.Pressures, func(now pressure.Pressure) bool {
		return now.Threshold.Signal == planned.Signal && now.Threshold.Hard == planned.Hard
	})
	if at < 0 || !a.options.Pods.Synced() {
		return ""
	}
	s := a.situation(ctx, sample, verdict.Pressures[at])
	query := a.queryOf(s)
	uses, hold, _ := a.measurer.Uses(ctx, &query)
	if hold != decide.HoldNone {
		return ""
	}
	a.victims.ObserveUses(s, uses)
	return s.Covered()
}
