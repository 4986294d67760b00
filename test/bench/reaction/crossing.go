package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/memory"
)

// moment is one reading of the sampler.
type moment struct {
	before    time.Time // just before the reading
	available int64     // by the agent's own definition
	kernel    int64     // MemAvailable
}

// sample reads every millisecond until the context ends. It reads no data of evictd or the kubelet.
func (b *bench) sample(ctx context.Context, a agent) ([]moment, error) {
	const seconds = 60
	moments := make([]moment, 0, seconds*int(time.Second/time.Millisecond))
	err := measure.Every(ctx, time.Millisecond, func(now time.Time) error {
		kernel, err := memory.Kernel()
		available := kernel
		if a == byKubelet && err == nil {
			available, err = b.workingSet()
		}
		moments = append(moments, moment{before: now, available: available, kernel: kernel})
		return err
	})
	return moments, err
}

// crossing finds the last reading above the threshold before the first one below. Memory
// crossed it after that, so the reaction is shown as slightly too long and never too short,
// by at most the interval between the two. The rate is that of MemAvailable over the last
// 0.9 GB before the crossing, or nine tenths of a shorter distance.
func crossing(moments []moment, line, distance int64) (result, error) {
	const late = 0.5 // of the distance must still be ahead when the sampling begins
	if len(moments) == 0 || float64(moments[0].available-line) < late*float64(distance) {
		return result{}, fmt.Errorf("%w: memory went before the pod took it", errDisturbed)
	}
	at := slices.IndexFunc(moments, func(m moment) bool { return m.available < line })
	if at < 0 {
		return result{}, fmt.Errorf("%w: the sampler saw no crossing", errDisturbed)
	}
	before, below := &moments[at-1], &moments[at]
	taken := moments[0].kernel - below.kernel
	if float64(taken) < late*float64(distance) {
		return result{}, fmt.Errorf("%w: not the pod took the memory", errDisturbed)
	}
	lead := max(taken/10, taken-900*megabyte)
	begin := slices.IndexFunc(moments, func(m moment) bool { return moments[0].kernel-m.kernel >= lead })
	c := result{crossed: before.before, gap: below.before.Sub(before.before)}
	if took := below.before.Sub(moments[begin].before); took > 0 {
		c.measured = float64(moments[begin].kernel-below.kernel) / took.Seconds()
	}
	return c, nil
}
