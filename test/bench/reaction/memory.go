package main

import (
	"context"
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

// sampleEvery is how often the sampler reads.
const sampleEvery = time.Millisecond

// sample reads until the context ends, on its own thread with the highest priority. It reads no data of
// evictd or the kubelet.
func sample(ctx context.Context, a agent) ([]moment, error) {
	if err := measure.GoFirst(); err != nil {
		return nil, err
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
		_ = measure.Sleep(ctx, sampleEvery-time.Since(m.before)) // the loop asks the context
	}
	return moments, nil
}
