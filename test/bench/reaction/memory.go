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

// sample reads until the context ends. It reads no data of evictd or the kubelet.
func sample(ctx context.Context, a agent) ([]moment, error) {
	r, err := memory.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	const seconds = 60
	moments := make([]moment, 0, seconds*int(time.Second/sampleEvery))
	err = measure.Every(ctx, sampleEvery, func(now time.Time) error {
		kernel, unread := memory.Kernel()
		available := kernel
		if a == byKubelet && unread == nil {
			available, unread = r.WorkingSet()
		}
		moments = append(moments, moment{before: now, available: available, kernel: kernel})
		return unread
	})
	return moments, err
}
