package decide

import (
	"fmt"

	"github.com/evictd/evictd/pkg/pressure"
)

// Obsolete says why a plan that is being carried out should be canceled by a newer sample; "" where
// it should not. GiveWay says that it cannot wait: a hard pressure, of any signal, began after a soft
// decision was made. That can wait neither for the other requests of the plan nor for a soft grace period.
// A hard pressure from before the decision was decided first.
func Obsolete(d *Decision, policy *Policy, sample *pressure.Sample, verdict *pressure.Verdict) (why string, giveWay bool) {
	if _, fault := incompleteReading(&Situation{Pressure: d.Pressure, Sample: sample, Policy: policy}, d); fault != "" {
		return fault, false
	}
	if !d.Pressure.HoldsIn(sample) {
		return "recovered meanwhile", false
	}
	for i := range verdict.Pressures {
		if met := &verdict.Pressures[i]; !d.Pressure.Threshold.Hard && met.Threshold.Hard && met.Since.After(d.Time) {
			return fmt.Sprintf("the hard threshold of %v was met meanwhile", met.Threshold.Signal), true
		}
	}
	return "", false
}
