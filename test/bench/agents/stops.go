package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// stopAll stops all agents by their ConfigMap and lets them act again, as often as wanted, and prints how
// long it takes until each agent's loop has it in force.
func (b *bench) stopAll(ctx context.Context) error {
	var stops, resumes []time.Duration
	for range b.stops {
		took, err := b.calm.Stop(ctx)
		if err != nil {
			return err
		}
		stops = append(stops, took...)
		if took, err = b.calm.Resume(ctx); err != nil {
			return err
		}
		resumes = append(resumes, took...)
	}
	if b.stops == 0 {
		return nil
	}
	fmt.Printf("\nfrom the request to the agent's loop, %d agents, %d times; %s\n\n", b.calm.Agents(), b.stops, measure.Machine())
	return measure.Table(os.Stdout, []string{"", "median ms", "p99 ms", "last ms"}, [][]string{
		append([]string{"ConfigMap created: no agent acts"}, spread(stops)...),
		append([]string{"ConfigMap deleted: all act again"}, spread(resumes)...),
	})
}

// spread returns the median, the 99th percentile and the largest of some durations, in ms.
func spread(took []time.Duration) []string {
	const half, almostAll = 0.5, 0.99
	var cells []string
	for _, d := range []time.Duration{measure.Quantile(took, half), measure.Quantile(took, almostAll), slices.Max(took)} {
		cells = append(cells, fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond)))
	}
	return cells
}
