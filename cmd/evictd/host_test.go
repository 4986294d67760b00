package main

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// The gap between the two definitions of memory.available is read at most once a second, and
// is 0 where one of them is unknown.
func TestKubeletGap(t *testing.T) {
	t.Parallel()
	reads, cache, fault := 0, int64(300), error(nil)
	gap := kubeletGap{sample: func(pressure.MemoryDefinition, ...pressure.Signal) (sample pressure.Sample) {
		reads++
		sample.Observations[pressure.MemoryAvailable] = pressure.Observation{State: pressure.Known, Available: 1000, Capacity: 4000}
		sample.Observations[pressure.KubeletMemoryAvailable] = pressure.Observation{State: pressure.Known, Available: 1000 - cache, Capacity: 4000}
		if fault != nil {
			sample.Observations[pressure.KubeletMemoryAvailable] = pressure.Observation{Err: fault}
		}
		return sample
	}}
	start := time.Unix(1000, 0)
	look := func(after time.Duration, want int64, wantReads int) {
		t.Helper()
		if got := gap.at(start.Add(after)); got != want || reads != wantReads {
			t.Errorf("after %v: %d and %d reads, want %d and %d", after, got, reads, want, wantReads)
		}
	}
	look(0, 300, 1)
	cache = 500
	look(999*time.Millisecond, 300, 1)
	look(time.Second, 500, 2)
	look(-time.Minute, 500, 3) // the clock was set back
	fault = errors.New("planted")
	look(0, 0, 4)
}
