package pressure

import "time"

// Pressure is a threshold that is met, with the reading that met it.
type Pressure struct {
	// Threshold is the line.
	Threshold Threshold
	// Observed is the reading; its State is Known.
	Observed Observation
	// Line is the threshold's quantity for the observed capacity, Target the line
	// plus the minimum reclaim, both in the signal's unit.
	Line, Target int64
	// Since is when the threshold was first met without a break.
	Since time.Time
	// SampleTime is when the reading was taken.
	SampleTime time.Time
	// Forecast is when the signal's hard threshold will be met; not Known when it has
	// none.
	Forecast Forecast
}

// Deficit returns what is missing to the target, in the signal's unit; never negative.
func (p *Pressure) Deficit() int64 { return max(0, p.Target-p.Observed.Available) }

// Verdict is the result of judging one sample.
type Verdict struct {
	// Time is the sample's time.
	Time time.Time
	// Stale says that the sample is not newer than the previous one; nothing else is filled
	// in, and no decision may use it.
	Stale bool
	// Pressures are the thresholds that hold, hard before soft, memory first.
	Pressures []Pressure
	// Waiting are the soft thresholds that are met and whose grace period is still
	// running, in the same order.
	Waiting []Pressure
	// Unknown are the signals that have a threshold but could not be read. A tick with any
	// of them evicts no pod.
	Unknown []Signal
	// Forecasts say when the signals' hard thresholds will be met.
	Forecasts [SignalCount]Forecast
	// Under says which signals count as under pressure: one of their thresholds is met,
	// whether or not its grace period is over, or was met within the transition period. The
	// kubelet reports its node conditions by the same rule. No decision uses it.
	Under [SignalCount]bool
	// Held says which of these have a threshold that holds, or that held within the transition period. No
	// decision uses it either.
	Held [SignalCount]bool
}

// MetIn reports whether the threshold is met in another sample, for the check just before an
// irreversible action: where it is not met any more, nothing is done for the minimum reclaim alone. An
// unknown reading is not pressure.
func (p *Pressure) MetIn(sample *Sample) bool {
	seen := sample.Of(p.Threshold.Signal)
	return seen.State == Known && seen.Available < p.Line
}
