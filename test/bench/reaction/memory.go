package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/internal/memory"
)

// moment is one reading of the sampler.
type moment struct {
	before    time.Time // just before the reading
	available int64     // by the agent's own definition
	kernel    int64     // MemAvailable
}

// sampleEvery is how often the sampler reads.
const sampleEvery = time.Millisecond

// sample reads until the context ends, on its own thread with the highest priority: it
// shares the cores with the processes that it measures, and must not be late when they are.
// It reads no data of evictd or the kubelet.
func sample(ctx context.Context, a agent) ([]moment, error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if err := unix.SchedSetAttr(0, first, 0); err != nil {
		return nil, fmt.Errorf("putting the sampler's thread first: %w", err)
	}
	r, err := memory.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	const seconds = 60
	moments := make([]moment, 0, seconds*int(time.Second/sampleEvery))
	for ctx.Err() == nil {
		m := moment{before: time.Now()}
		if m.kernel, err = r.Kernel(); err != nil {
			return nil, err
		}
		m.available = m.kernel
		if a == byKubelet {
			if m.available, err = r.WorkingSet(); err != nil {
				return nil, err
			}
		}
		moments = append(moments, m)
		time.Sleep(sampleEvery - time.Since(m.before))
	}
	return moments, nil
}
