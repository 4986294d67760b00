package assess

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// LookEvery is how often a plan that is being carried out is compared with the pods that terminate
// since, and with a hard pressure that is not held any more: that reads all pods' cgroups, two
// milliseconds' work at most for 110 pods, and near a threshold there are a hundred ticks a second.
const LookEvery = 200 * time.Millisecond

// Outdated says why a decision that is being carried out should be canceled by a newer sample: the
// node does not need it any more, needs another sooner, or cannot be read; "" where it should not.
// GiveWay says that it cannot wait, because a hard pressure is to be dealt with.
func (a *Assessor) Outdated(
	ctx context.Context, d *decide.Decision, sample *pressure.Sample, verdict *pressure.Verdict,
) (why string, giveWay bool) {
	if why, giveWay = decide.Obsolete(d, &a.policy, sample, verdict); why != "" {
		return why, giveWay
	}
	if verdict.Time.Sub(a.looked) < LookEvery {
		return "", false
	}
	a.looked = verdict.Time
	if free := a.hardNotHeld(ctx, d, sample, verdict); free != nil {
		return fmt.Sprintf("nothing holds the hard pressure of %v any more", free.Threshold.Signal), true
	}
	return a.coveredMeanwhile(ctx, d, sample, verdict), false
}

// hardNotHeld returns a hard pressure, of any signal, that was held when a soft plan began and
// would evict now: for example because a reading is available again, or because the pods in flight
// no longer suffice. Nil when there is none. While a hard pressure is held, even permanently, soft
// plans continue.
func (a *Assessor) hardNotHeld(
	ctx context.Context, d *decide.Decision, sample *pressure.Sample, verdict *pressure.Verdict,
) *pressure.Pressure {
	if d.Pressure.Threshold.Hard {
		return nil
	}
	for i := range verdict.Pressures {
		held := &verdict.Pressures[i]
		if !held.Threshold.Hard {
			continue
		}
		if a.Assess(ctx, sample, held).Hold == decide.HoldNone {
			return held
		}
	}
	return nil
}

// coveredMeanwhile brings what is in flight up to date and says that it suffices; "" when it does
// not, or that is not known.
func (a *Assessor) coveredMeanwhile(
	ctx context.Context, d *decide.Decision, sample *pressure.Sample, verdict *pressure.Verdict,
) string {
	planned := &d.Pressure.Threshold
	at := slices.IndexFunc(verdict.Pressures, func(now pressure.Pressure) bool {
		return now.Threshold.Signal == planned.Signal && now.Threshold.Hard == planned.Hard
	})
	if at < 0 || !a.options.Pods.Synced() {
		return ""
	}
	s := a.situation(ctx, sample, &verdict.Pressures[at])
	query := a.queryOf(s)
	uses, hold, _ := a.options.Measurer.Uses(ctx, &query)
	if hold != decide.HoldNone {
		return ""
	}
	s.Uses = uses
	s.InFlight = a.options.Memories.Victims.For(s)
	a.options.Memories.Victims.Measured(s)
	return s.Covered()
}
