package measure

import (
	"cmp"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// RenewedWithin is how long after a threshold was met its source should have renewed every figure.
// The kubelet measures a pod's volumes again after one to two minutes (volumeStatsAggPeriod and the
// jitter of 1.0 in pkg/kubelet/server/stats, volume_stat_calculator.go), and the runtime its layers
// more often; and evictd must have requested a measurement since.
const RenewedWithin = 2*time.Minute + diskRefresh + DiskTimeout

// outdated are the pods whose figures are from before a pressure, and so do not show what
// brought it about: docs/adr/0019.
type outdated struct {
	pods int
	// example is the pod whose figures are the oldest, and at when these were taken; zero
	// when they carry no time.
	example string
	at      time.Time
}

// figuresBefore returns the pods whose figures are from before the pressure. A time that is zero,
// or in the future because the clock was set back, is ignored. Pods that are not known completely
// are left out: no decision relies on their figures anyway.
func figuresBefore(p *pressure.Pressure, pods []*nodepods.Pod, measured map[string]usage.DiskUse) outdated {
	var before outdated
	for _, pod := range pods {
		u, known := measuredOf(measured, pod.UID, pod.CgroupUID)
		_, exact := amountUsed(p.Threshold.Signal, filesystemOf(p.Threshold.Signal, &u))
		if !known || !exact || pod.Finished {
			continue
		}
		at := u.Time
		if at.After(p.SampleTime) {
			at = time.Time{}
		}
		if latest(at).Before(p.Since) {
			before.add(pod.Key(), at)
		}
	}
	return before
}

// latest returns the last moment at which a figure may have been taken. The times in a
// Summary have whole seconds, as the API's JSON has them: one without a part of a second was
// taken at any moment of it. The zero time stays zero.
func latest(at time.Time) time.Time {
	if at.IsZero() || at.Nanosecond() != 0 {
		return at
	}
	return at.Add(time.Second - time.Nanosecond)
}

func (o *outdated) add(pod string, at time.Time) {
	if o.pods == 0 || cmp.Or(at.Compare(o.at), cmp.Compare(pod, o.example)) < 0 {
		o.example, o.at = pod, at
	}
	o.pods++
}

// awaitNewer holds a decision while figures are from before the pressure, unless the disk
// would be full before a victim could help.
func (o *outdated) awaitNewer(p *pressure.Pressure) (decide.Hold, string) {
	wait := RenewedWithin - p.SampleTime.Sub(p.Since)
	if o.pods == 0 || wait <= 0 || decide.TooLate(p, wait) {
		return decide.HoldNone, ""
	}
	return decide.HoldUsageUnknown, fmt.Sprintf("%s: waiting %v at most for newer ones", o.text(p), wait.Round(time.Second))
}

// text says that a decision is based on such figures; "" when it is not.
func (o *outdated) text(p *pressure.Pressure) string {
	if o.pods == 0 {
		return ""
	}
	age := "of unknown age"
	if !o.at.IsZero() {
		age = fmt.Sprintf("%v old", p.SampleTime.Sub(o.at).Round(time.Second))
	}
	return fmt.Sprintf("the figures of %d pods are from before the pressure; those of %s are %s", o.pods, o.example, age)
}
