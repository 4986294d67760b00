package sim

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Disk is a filesystem of 1000 of a node, and what measures the pods' use of it. Figures without a time are as
// old as the request for them. Functions are called with the node's mu held, with the time since the start.
type Disk struct {
	node      *Node
	signal    pressure.Signal
	started   time.Time
	available func(since time.Duration) int64            // nil: the signal is absent
	freed     func(ended map[string]time.Duration) int64 // besides, by how long ago the watched pods ended
	blind     func(since time.Duration) bool             // when it cannot be read; nil: never
	watched   []string                                   // names of pods
	ended     map[string]time.Time                       // since when they are not there
	measured  map[string]usage.DiskUse                   // by the pods' UIDs
	measures  func() (map[string]usage.DiskUse, error)   // measures in its place
	slow      time.Duration                              // how long a measurement takes
	err       error                                      // why it fails
	asked     atomic.Int64                               // so many were made
}

// observe puts the signal into a sample.
func (d *Disk) observe(sample *pressure.Sample) {
	if d.available == nil {
		return
	}
	since := sample.Time.Sub(d.started)
	seen := pressure.Observation{State: pressure.Known, Available: d.available(since) + d.freed(d.ages(sample.Time)), Capacity: 1000, Device: 1}
	if d.blind != nil && d.blind(since) {
		seen = pressure.Observation{Err: errPlanted()}
	}
	sample.Observations[d.signal] = seen
}

// ages returns how long ago the watched pods have ended.
func (d *Disk) ages(now time.Time) map[string]time.Duration {
	ages := map[string]time.Duration{}
	for _, name := range d.watched {
		if _, there := d.node.pods["uid-"+name]; there {
			continue
		}
		if d.ended[name].IsZero() {
			d.ended[name] = now
		}
		ages[name] = now.Sub(d.ended[name])
	}
	return ages
}

// Measure implements [measure.Disk].
func (d *Disk) Measure(ctx context.Context, _ []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	d.asked.Add(1)
	asked := time.Now()
	select {
	case <-time.After(d.slow + time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	if d.measures != nil {
		return d.measures()
	}
	measured := maps.Clone(d.measured)
	for uid, use := range measured {
		if use.Time.IsZero() {
			use.Time = asked
			measured[uid] = use
		}
	}
	return measured, d.err
}

// Images says what images hold that no pod uses.
type Images struct {
	unused  measure.UnusedImages
	counted func() measure.UnusedImages // in place of unused, with mu held
	err     error
	slow    time.Duration
	asked   int
}

// Unused implements [measure.Disk].
func (d *Disk) Unused(context.Context, []*nodepods.Pod) (measure.UnusedImages, error) {
	f := d.node.images
	f.asked++
	if f.counted != nil {
		d.node.mu.Lock()
		defer d.node.mu.Unlock()
		return f.counted(), nil
	}
	time.Sleep(f.slow) // a directory that does not answer hears of no context
	return f.unused, f.err
}
