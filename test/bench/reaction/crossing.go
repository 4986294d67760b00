package main

import (
	"fmt"
	"slices"
	"time"
)

// crossed is a run with the moment of its crossing.
type crossed struct {
	result
	at time.Time
}

// crossing finds the last reading above the threshold before the first one below. Memory
// crossed it after that, so the reaction is shown as slightly too long and never too short,
// by at most the interval between the two. The rate is that of MemAvailable over the last
// 0.9 GB before the crossing, or nine tenths of a shorter distance.
func crossing(moments []moment, line, distance int64) (crossed, error) {
	const late = 0.5 // of the distance must still be ahead when the sampling begins
	if len(moments) == 0 || float64(moments[0].available-line) < late*float64(distance) {
		return crossed{}, fmt.Errorf("%w: memory went before the pod took it", errDisturbed)
	}
	at := slices.IndexFunc(moments, func(m moment) bool { return m.available < line })
	if at < 0 {
		return crossed{}, fmt.Errorf("%w: the sampler saw no crossing", errDisturbed)
	}
	before, below := &moments[at-1], &moments[at]
	taken := moments[0].kernel - below.kernel
	if float64(taken) < late*float64(distance) {
		return crossed{}, fmt.Errorf("%w: not the pod took the memory", errDisturbed)
	}
	lead := max(taken/10, taken-900*megabyte)
	begin := slices.IndexFunc(moments, func(m moment) bool { return moments[0].kernel-m.kernel >= lead })
	c := crossed{at: before.before}
	c.gap = below.before.Sub(before.before)
	if took := below.before.Sub(moments[begin].before); took > 0 {
		c.measured = float64(moments[begin].kernel-below.kernel) / took.Seconds()
	}
	return c, nil
}
