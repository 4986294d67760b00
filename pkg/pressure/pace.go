package pressure

import "time"

// Pacing bounds the time between two samples.
type Pacing struct {
	// Min is the shortest time between two samples; Max the longest.
	Min, Max time.Duration
}

// rateMemory is how long an observed fill rate is still expected.
const rateMemory = 30 * time.Second

// pressuredFactor times Pacing.Min is the sampling interval while every reachable threshold
// has been reached: only a recovery is left to detect.
const pressuredFactor = 10

// Pacer says when the next sample is due: when the nearest threshold could be reached at the
// fastest fill rate seen or assumed. It samples at Pacing.Max far from every threshold and
// at Pacing.Min close to one. It is not safe for concurrent use.
type Pacer struct {
	pacing     Pacing
	thresholds []Threshold
	previous   Sample
	seen       [SignalCount]float64 // units per second
}

// NewPacer returns a pacer for those thresholds.
func NewPacer(pacing Pacing, thresholds []Threshold) *Pacer {
	return &Pacer{pacing: pacing, thresholds: thresholds}
}

// Next records the sample and returns the time until the next one is due.
func (p *Pacer) Next(sample *Sample) time.Duration {
	p.learn(sample)
	due := p.pacing.Max
	for i := range p.thresholds {
		due = min(due, p.due(&p.thresholds[i], sample))
	}
	return due
}

// due returns when the threshold could be reached. A signal that could not be read is read
// again at Max: reading it more often would not fix it.
func (p *Pacer) due(t *Threshold, sample *Sample) time.Duration {
	seen := sample.Of(t.Signal)
	if seen.State != Known {
		return p.pacing.Max
	}
	headroom := float64(seen.Available - t.Quantity.Of(seen.Capacity))
	if headroom <= 0 {
		return pressuredFactor * p.pacing.Min
	}
	return p.within(headroom, max(t.Signal.row().fastest, p.seen[t.Signal]))
}

// Until returns when that much of the signal will be used up at the fastest recent rate,
// between the bounds of the pacing. Without a recent rate it returns the longest.
func (p *Pacer) Until(s Signal, amount int64) time.Duration {
	return p.within(float64(amount), p.seen[s])
}

// within returns when the amount is used up at the rate, between the bounds of the pacing.
func (p *Pacer) within(amount, rate float64) time.Duration {
	seconds := amount / rate
	if rate <= 0 || seconds >= p.pacing.Max.Seconds() {
		return p.pacing.Max
	}
	return max(p.pacing.Min, time.Duration(seconds*float64(time.Second)))
}

// learn keeps the fastest fill rate of each signal and lets it fade.
func (p *Pacer) learn(sample *Sample) {
	elapsed := max(0, sample.Time.Sub(p.previous.Time))
	for s := range SignalCount {
		p.seen[s] *= max(0, 1-elapsed.Seconds()/rateMemory.Seconds())
		before, now := p.previous.Of(s), sample.Of(s)
		if before.State == Known && now.State == Known && elapsed > 0 {
			p.seen[s] = max(p.seen[s], float64(before.Available-now.Available)/elapsed.Seconds())
		}
	}
	p.previous = *sample
}
