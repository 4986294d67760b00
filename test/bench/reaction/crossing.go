package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
)

// moment is one reading of the sampler.
type moment struct {
	before    time.Time     // just before the reading
	available int64         // by the agent's own definition
	kernel    int64         // MemAvailable
	cpu       time.Duration // that evictd has used so far
}

// sample reads every millisecond until the context ends: no data of evictd or the kubelet, and by its own clock what CPU
// time evictd's process has used.
func (b *bench) sample(ctx context.Context, a agent) ([]moment, error) {
	const seconds = 60
	pod, err := b.Node.EvictdPod(ctx)
	if err != nil {
		return nil, err
	}
	process, err := node.EvictdProcess(pod)
	if err != nil {
		return nil, err
	}
	moments := make([]moment, 0, seconds*int(time.Second/time.Millisecond))
	err = measure.Every(ctx, time.Millisecond, func(now time.Time) error {
		kernel, unread := memory.Kernel()
		available := kernel
		if a == byKubelet && unread == nil {
			available, unread = b.workingSet()
		}
		cpu, unknown := measure.CPU(process)
		moments = append(moments, moment{before: now, available: available, kernel: kernel, cpu: cpu})
		return errors.Join(unread, unknown)
	})
	return moments, err
}

// spent returns how much CPU time evictd used from the crossing until its act.
func spent(moments []moment, crossed, acted time.Time) time.Duration {
	at := func(t time.Time) time.Duration {
		i := slices.IndexFunc(moments, func(m moment) bool { return m.before.After(t) })
		if i < 0 {
			i = len(moments)
		}
		return moments[max(0, i-1)].cpu
	}
	return at(acted) - at(crossed)
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
