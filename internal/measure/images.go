package measure

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// UnusedImages is what images hold that no pod of the node uses.
type UnusedImages struct {
	// Bytes is what they hold, as far as it is known.
	Bytes int64
	// OnNodeFS says that images are on nodefs: the node has one filesystem for both.
	OnNodeFS bool
}

// imageCount is what is known of the images.
type imageCount struct {
	source[UnusedImages]
	below   [pressure.SignalCount]belowLine
	kubelet kubeletconfig.Configuration
}

// belowLine follows a signal that is below the kubelet's line. The zero value is above it.
type belowLine struct {
	incident     string    // its ID
	first, since time.Time // since when it is; since when it has not risen
	lowest       int64     // since then
	seen         time.Time // last
}

// Images returns what is known of the images that no pod uses, once it is known what the pods use. It requests a count
// when one is due, and follows where the signal is relative to the kubelet's line. It does not wait.
func (m *Measurer) Images(ctx context.Context, s *decide.Situation) decide.Images {
	p := &s.Pressure
	if p.Threshold.Signal.Kind() != pressure.SpaceKind {
		return decide.Images{}
	}
	c, b := &m.images, &m.images.below[p.Threshold.Signal]
	c.ask(ctx, m, p.SampleTime, decide.ImagesEvery, s.Pods, m.options.Disk.Unused)
	known := decide.Images{
		Requested: c.known.At, Bytes: c.known.Figures.Bytes, Elsewhere: !c.on(p.Threshold.Signal, s.Uses), Err: c.last.Err,
	}
	if c.pending {
		known.Pending = c.asked
	}
	known.Line, known.Within = c.line(p)
	b.follow(p, known.Line, s.Incident)
	known.Below, known.Still = b.first, b.since
	return known
}

// follow records where the signal is relative to the kubelet's line. What was seen before this incident is ignored, and
// so is what was seen before a time in which no decision asked: the signal may have risen then.
func (b *belowLine) follow(p *pressure.Pressure, line int64, incident string) {
	now, available := p.SampleTime, p.Observed.Available
	switch {
	case available >= line:
		*b = belowLine{}
	case b.incident != incident, now.Sub(b.seen) > decide.ImagesLook:
		*b = belowLine{incident: incident, first: now, since: now, lowest: available}
	case available > b.lowest+decide.Noise(p):
		b.since, b.lowest = now, available
	default:
		b.lowest = min(b.lowest, available)
	}
	b.seen = now
}

// line returns the availability below which the kubelet removes all unused images, and how long it
// may take for that; 0 when it never does. Of its hard thresholds those of imagefs.available and, on a node with one
// filesystem, nodefs.available count; the higher one of two.
func (c *imageCount) line(p *pressure.Pressure) (line int64, within time.Duration) {
	capacity := p.Observed.Capacity
	for _, t := range c.kubelet.Thresholds {
		if t.Hard && (t.Signal == pressure.ImageFSAvailable || t.Signal == pressure.NodeFSAvailable && c.known.Figures.OnNodeFS) {
			line = max(line, t.Quantity.Of(capacity))
		}
	}
	if line > 0 {
		return line, decide.ImagesWait
	}
	return c.kubelet.ImageCollection.Of(capacity), decide.ImagesCollection
}

// on reports whether the images are on the signal's device. Where the kubelet says that
// images are elsewhere than layers, and nodefs and imagefs read as one device, the images'
// own is not read.
func (c *imageCount) on(signal pressure.Signal, uses *decide.Uses) bool {
	if !c.known.Figures.OnNodeFS {
		return signal != pressure.NodeFSAvailable
	}
	return !slices.ContainsFunc(uses.Disk, func(u usage.DiskUse) bool { return u.SplitLayers })
}
