package pressure

import "time"

// Pacing bounds the time between two samples.
type Pacing struct {
	// Min is the shortest time between two samples; Max the longest.
	Min, Max time.Duration
}

// rateMemory is how long a fill rate that was seen once is still expected.
const rateMemory = 30 * time.Second

// pressuredFactor times Pacing.Min is the time between samples while every
// threshold that could be reached has been: there is nothing left to be early
// for, only a recovery to notice.
const pressuredFactor = 10

// Pacer says when the next sample is due: when the nearest threshold could be
// reached at the fastest fill rate seen or assumed. Far from every threshold the
// node is sampled at Pacing.Max, close to one at Pacing.Min. It is not safe for
// concurrent use.
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

// Next notes the sample and returns the time until the next one is due.
func (p *Pacer) Next(sample *Sample) time.Duration {
	p.learn(sample)
	due := p.pacing.Max
	for i := range p.thresholds {
		due = min(due, p.due(&p.thresholds[i], sample))
	}
	return max(due, p.pacing.Min)
}

// due returns when the threshold could be reached. A signal that could not be
// read is asked for again at Max: reading it faster would not mend it.
func (p *Pacer) due(t *Threshold, sample *Sample) time.Duration {
	seen := sample.Of(t.Signal)
	if seen.State != Known {
		return p.pacing.Max
	}
	headroom := float64(seen.Available - t.Quantity.Of(seen.Capacity))
	if headroom <= 0 {
		return pressuredFactor * p.pacing.Min
	}
	seconds := headroom / max(t.Signal.row().fastest, p.seen[t.Signal])
	if seconds >= p.pacing.Max.Seconds() {
		return p.pacing.Max
	}
	return time.Duration(seconds * float64(time.Second))
}

// Until returns when so much of a signal will be used up at the fastest rate seen of late,
// between the bounds of the pacing. Where nothing was seen to be used that is the longest.
func (p *Pacer) Until(s Signal, amount int64) time.Duration {
	seconds := float64(amount) / p.seen[s]
	if seconds >= p.pacing.Max.Seconds() || p.seen[s] <= 0 {
		return p.pacing.Max
	}
	return max(p.pacing.Min, time.Duration(seconds*float64(time.Second)))
}

// learn keeps the fastest fill rate of each signal and lets it fade.
func (p *Pacer) learn(sample *Sample) {
	elapsed := sample.Time.Sub(p.previous.Time)
	if p.previous.Time.IsZero() || elapsed <= 0 {
		p.previous = *sample
		return
	}
	fade := max(0, 1-elapsed.Seconds()/rateMemory.Seconds())
	for s := range signalCount {
		p.seen[s] *= fade
		before, now := p.previous.Of(s), sample.Of(s)
		if before.State != Known || now.State != Known {
			continue
		}
		used := float64(before.Available - now.Available)
		p.seen[s] = max(p.seen[s], used/elapsed.Seconds())
	}
	p.previous = *sample
}
