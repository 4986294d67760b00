package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// When images are counted: under pressure of their device only, and once a minute at most. A
// count is good until the next one is there.
const (
	imagesRefresh = time.Minute
	ImagesTimeout = 5 * time.Second
	imagesFresh   = imagesRefresh + ImagesTimeout + 5*time.Second
)

// How long unused images that are not removed are waited for, see docs/adr/0010. ImagesCollection
// is the wait when the kubelet has no threshold and removes images only in its collection, every
// five minutes (ImageGCPeriod, pkg/kubelet/kubelet.go). A rise restarts the wait, for ImagesBound
// waits in all: a disk that is written and cleared alternately rises again and again.
const (
	ImagesWait       = time.Minute
	ImagesCollection = 5*time.Minute + ImagesWait
	ImagesLook       = 15 * time.Second
	ImagesBound      = 5
)

// UnusedImages is what images hold that no pod of the node uses.
type UnusedImages struct {
	// Bytes is what they hold, as far as it is known.
	Bytes int64
	// OnNodeFS says that images are on nodefs: the node has one filesystem for both.
	OnNodeFS bool
}

// Images counts what images hold that no pod of the node uses.
type Images interface {
	// Unused counts them; pods are those of the node. It may take seconds. An error means
	// that nothing is known.
	Unused(ctx context.Context, pods []*nodepods.Pod) (UnusedImages, error)
}

// ImageReclaim says when the kubelet removes unused images, by what is available. The zero
// value is a kubelet that never does, and no pod waits for it.
type ImageReclaim struct {
	// NodeFS and ImageFS are its hard thresholds of nodefs.available and imagefs.available;
	// zero where it has none. On a node with one filesystem the higher one counts.
	NodeFS, ImageFS pressure.Quantity
	// Collection is where it begins to collect images every five minutes; zero is never.
	Collection pressure.Quantity
}

// imageCount is what is known of the images. The zero value knows nothing.
type imageCount struct {
	answers chan imageAnswer // holds one; nil before the first request
	pending bool
	asked   time.Time
	last    imageAnswer // the newest; known is the newest that is no error
	known   imageAnswer
	below   [pressure.SignalCount]belowLine
	reclaim ImageReclaim
}

type imageAnswer struct {
	UnusedImages

	err error
	at  time.Time // when it was requested; zero is no answer
}

// belowLine follows a signal that is below the kubelet's line. The zero value is above it.
type belowLine struct {
	incident     string    // its ID
	first, since time.Time // since when it is; since when it has not risen
	lowest       int64     // since then
}

// FollowImages requests a count when one is due, takes the answer, and follows where the signal is
// relative to the kubelet's threshold. It does not wait; pods lists those of the node.
func (m *Measurer) FollowImages(ctx context.Context, p *pressure.Pressure, incident string, pods func() []*nodepods.Pod) {
	if m.options.Images == nil || p.Threshold.Signal.Kind() != pressure.SpaceKind {
		return
	}
	c := &m.images
	select {
	case c.last = <-c.answers:
		c.pending = false
		if c.last.err != nil {
			m.options.Fault(SourceImages, c.last.err)
		} else {
			c.known = c.last
		}
	default:
	}
	if !c.pending && (c.asked.IsZero() || p.SampleTime.Sub(c.asked) >= imagesRefresh) {
		c.ask(ctx, p.SampleTime, m.options.Images, pods())
	}
	line, _ := c.line(p)
	c.below[p.Threshold.Signal].follow(p, line, incident)
}

// ask starts a count.
func (c *imageCount) ask(ctx context.Context, now time.Time, images Images, pods []*nodepods.Pod) {
	if c.answers == nil {
		c.answers = make(chan imageAnswer, 1)
	}
	c.pending, c.asked = true, now
	answers := c.answers
	go func() {
		bounded, cancel := context.WithTimeout(ctx, ImagesTimeout)
		defer cancel()
		unused, err := images.Unused(bounded, pods)
		answers <- imageAnswer{UnusedImages: unused, err: err, at: now}
	}()
}

// follow records where the signal is relative to the kubelet's line. What was seen before this
// incident is ignored.
func (b *belowLine) follow(p *pressure.Pressure, line int64, incident string) {
	now, available := p.SampleTime, p.Observed.Available
	switch {
	case available >= line:
		*b = belowLine{}
	case b.since.IsZero() || b.incident != incident:
		*b = belowLine{incident: incident, first: now, since: now, lowest: available}
	case available > b.lowest+decide.Noise(p):
		b.since, b.lowest = now, available
	default:
		b.lowest = min(b.lowest, available)
	}
}

// line returns the availability below which the kubelet removes all unused images, and how long it
// may take for that; 0 when it never does.
func (c *imageCount) line(p *pressure.Pressure) (line int64, within time.Duration) {
	by, capacity := &c.reclaim, p.Observed.Capacity
	line = by.ImageFS.Of(capacity)
	if c.known.OnNodeFS {
		line = max(line, by.NodeFS.Of(capacity))
	}
	if line > 0 {
		return line, ImagesWait
	}
	return by.Collection.Of(capacity), ImagesCollection
}

// ImagesFirst holds a decision while images that no pod uses cover that much of what is missing of
// the signal, in its unit. The note has further facts about them; "" when there are none.
func (m *Measurer) ImagesFirst(p *pressure.Pressure, uses *decide.Uses, missing int64) (hold decide.Hold, detail, note string) {
	if m.options.Images == nil || p.Threshold.Signal.Kind() != pressure.SpaceKind {
		return decide.HoldNone, "", ""
	}
	c, signal := &m.images, p.Threshold.Signal
	if c.known.at.IsZero() || p.SampleTime.Sub(c.known.at) >= imagesFresh {
		if c.pending && c.last.err == nil && p.SampleTime.Sub(c.asked) < ImagesTimeout {
			// Not ImagesFirst, whose Event is said once and with the figures.
			return decide.HoldUsageUnknown, "counting what images hold that no pod uses", ""
		}
		return decide.HoldNone, "", "what images hold that no pod uses is not known, and no pod waits for it: " + c.fault()
	}
	if !c.on(signal, uses) || c.known.Bytes < missing {
		return decide.HoldNone, "", ""
	}
	return c.await(p, fmt.Sprintf("images that no pod uses hold %s, and %s are missing",
		wording.Amount(signal, c.known.Bytes), wording.Amount(signal, missing)))
}

// on reports whether the images are on the signal's device. Where the kubelet says that
// images are elsewhere than layers, and nodefs and imagefs read as one device, the images'
// own is not read.
func (c *imageCount) on(signal pressure.Signal, uses *decide.Uses) bool {
	if !c.known.OnNodeFS {
		return signal != pressure.NodeFSAvailable
	}
	return !slices.ContainsFunc(uses.Disk, func(u usage.DiskUse) bool { return u.SplitLayers })
}

// fault says why nothing is known.
func (c *imageCount) fault() string {
	if c.last.err != nil {
		return wording.OneLine(c.last.err.Error())
	}
	return fmt.Sprintf("there was no answer within %v", ImagesTimeout)
}

// await holds a decision until the kubelet should have removed the images. Text says what they
// hold.
func (c *imageCount) await(p *pressure.Pressure, text string) (hold decide.Hold, detail, note string) {
	line, within := c.line(p)
	amount := wording.Amount(p.Threshold.Signal, line)
	b := &c.below[p.Threshold.Signal]
	if line == 0 {
		return decide.HoldNone, "", text + ": the kubelet is not configured to remove images"
	}
	if b.since.IsZero() {
		return decide.HoldImagesFirst, fmt.Sprintf("%s: the kubelet removes them below %s, before it evicts pods", text, amount), ""
	}
	wait := min(within-p.SampleTime.Sub(b.since), ImagesBound*within-p.SampleTime.Sub(b.first))
	if p.SampleTime.Sub(b.since) >= ImagesLook && decide.TooLate(p, 0) {
		wait = 0
	}
	if wait <= 0 {
		return decide.HoldNone, "", fmt.Sprintf("%s: availability has been below %s, where the kubelet removes them, for %v, the last %v without a rise",
			text, amount, p.SampleTime.Sub(b.first).Round(time.Second), p.SampleTime.Sub(b.since).Round(time.Second))
	}
	return decide.HoldImagesFirst, fmt.Sprintf("%s: the kubelet removes them below %s: waiting %v at most for a rise", text, amount, wait.Round(time.Second)), ""
}
