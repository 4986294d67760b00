package decide

import (
	"fmt"

	"github.com/evictd/evictd/pkg/pressure"
)

// Obsolete says why a plan that is being carried out should be canceled by a newer sample; "" where
// it should not. GiveWay says that it cannot wait, because a hard pressure is to be dealt with.
func Obsolete(d *Decision, policy *Policy, sample *pressure.Sample, verdict *pressure.Verdict) (why string, giveWay bool) {
	if fault := Incomplete(sample, policy.Thresholds, d.Pressure.Threshold.Signal); fault != "" {
		return fault, false
	}
	if !d.Pressure.HoldsIn(sample) {
		return "recovered meanwhile", false
	}
	if met := hardSince(d, verdict); met != nil {
		return fmt.Sprintf("the hard threshold of %v was met meanwhile", met.Threshold.Signal), true
	}
	return "", false
}

// hardSince returns a hard pressure, of any signal, that began after a soft decision was made; nil
// when there is none. It cannot wait for the other requests of the plan, nor for a soft grace
// period. A hard pressure from before the decision was decided first.
func hardSince(d *Decision, verdict *pressure.Verdict) *pressure.Pressure {
	if d.Pressure.Threshold.Hard {
		return nil
	}
	for i := range verdict.Pressures {
		if met := &verdict.Pressures[i]; met.Threshold.Hard && met.Since.After(d.Time) {
			return met
		}
	}
	return nil
}
