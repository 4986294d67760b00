package decide

import (
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// A figure has a time. How old one may be for a decision, and how long a decision waits for a newer one,
// or for one that is missing, is here and nowhere else.
const (
	// DiskEvery is how old the measurement of the pods' disk use is that is repeated while a disk is
	// short, DiskTimeout how long one may take, and DiskMaxAge how old one may be for a decision. The
	// kubelet itself computes these figures once a minute. A measurement counts until the next one is
	// there, with a margin for the ticks at both ends; otherwise a lasting pressure would be without one
	// whenever it takes long.
	DiskEvery   = 10 * time.Second
	DiskTimeout = 10 * time.Second
	DiskMaxAge  = DiskEvery + DiskTimeout + 5*time.Second
	// RenewedWithin is how long after a threshold was met its source should have renewed every figure.
	// The kubelet measures a pod's volumes again after one to two minutes (volumeStatsAggPeriod and the
	// jitter of 1.0 in pkg/kubelet/server/stats, volume_stat_calculator.go), and the runtime its layers
	// more often; and evictd must have requested a measurement since.
	RenewedWithin = 2*time.Minute + DiskEvery + DiskTimeout

	// ReadingMaxAge is how old a pod's last reading may be when it replaces one that failed, and
	// UnreadWait how long decisions about one incident wait in all for pods that could not be read. A pod
	// whose cgroup cannot be read is no candidate, so that its neighbours would go in its place: see
	// docs/adr/0018.
	ReadingMaxAge = 30 * time.Second
	UnreadWait    = time.Second

	// ImagesEvery is how often images are counted, under pressure of their device only. A count is good
	// until the next one is there.
	ImagesEvery   = time.Minute
	ImagesTimeout = 5 * time.Second
	ImagesMaxAge  = ImagesEvery + ImagesTimeout + 5*time.Second
	// ImagesWait is how long unused images that are not removed are waited for, see docs/runbook.md, and
	// ImagesCollection that where the kubelet has no threshold and removes images only in its collection,
	// every five minutes (ImageGCPeriod, pkg/kubelet/kubelet.go). A rise restarts the wait, for
	// ImagesBound waits in all: a disk that is written and cleared alternately rises again and again.
	// Where a disk fills, the wait ends after ImagesLook.
	ImagesWait       = time.Minute
	ImagesCollection = 5*time.Minute + ImagesWait
	ImagesLook       = 15 * time.Second
	ImagesBound      = 5
)

// StallWindow returns the window over which a stall is measured; 0 for other signals, which are measured
// at a moment.
func StallWindow(signal pressure.Signal, seen pressure.Observation) time.Duration {
	if signal != pressure.MemoryStall {
		return 0
	}
	return time.Duration(seen.Capacity) * time.Microsecond
}

// newerSample waits for a reading that does not reach back to the last victim's end: a window in which
// that was still running does not show the time after it.
func newerSample(s *Situation, _ *Decision) (Hold, string) {
	p := &s.Pressure
	reaches := !p.SampleTime.After(s.LastEnd.Add(StallWindow(p.Threshold.Signal, p.Observed)))
	return holdIf(!s.LastEnd.IsZero() && reaches, HoldAwaitingNewerSample, "")
}

// DiskServes reports whether a measurement of the disks that was requested at that time serves the
// decision: it is young, and was requested since the pressure began and after the end of evictd's last
// victim.
func (s *Situation) DiskServes(requested time.Time) bool {
	p := &s.Pressure
	return p.SampleTime.Sub(requested) < DiskMaxAge && requested.After(s.LastEnd) && !requested.Before(p.Since)
}

// Unread are pods that could not be read, by name, and that no earlier reading stands in for.
type Unread struct {
	Pods []string
	// Waited is for how long there have been such pods in this incident, in all.
	Waited time.Duration
}

// await holds a decision for a moment while there are such pods; then it concerns them alone.
func (u *Unread) await() (Hold, string) {
	if len(u.Pods) == 0 || u.Waited >= UnreadWait {
		return HoldNone, ""
	}
	return HoldUsageUnknown, fmt.Sprintf("%d pods could not be read: %s; waiting %v at most",
		len(u.Pods), wording.Few(u.Pods), UnreadWait-u.Waited)
}

// Stalls is what is known of the pods' stalls between two readings.
type Stalls struct {
	// Since is when the first of the two was made; the zero time before there are two.
	Since time.Time
	// Err says why a reading failed, and Unread which pods are missing.
	Err    error
	Unread Unread
	// Bound are the pods that met a limit of their own, by name, and Others says that another one
	// stalled for as long as the threshold requires.
	Bound  []string
	Others bool
}

// stalledWithinOwnLimits holds a decision about stalls while only pods stall that met limits of their
// own: another pod's end would not help them. The kernel weighs the node's figure by busy CPUs, so a
// pod's cannot be subtracted from it. Instead, when a pod met its limit, another pod must have
// stalled for as long as the threshold requires.
func stalledWithinOwnLimits(s *Situation, _ *Decision) (Hold, string) {
	p, stalls := &s.Pressure, &s.Stalls
	if p.Threshold.Signal != pressure.MemoryStall {
		return HoldNone, ""
	}
	if stalls.Since.IsZero() || p.SampleTime.Sub(stalls.Since) > 2*StallWindow(p.Threshold.Signal, p.Observed) {
		return HoldUsageUnknown, "measuring which pods stall"
	}
	if stalls.Err != nil {
		return HoldUsageUnknown, fmt.Sprintf("which pods stall could not be read: %v", stalls.Err)
	}
	if hold, detail := stalls.Unread.await(); hold != HoldNone || len(stalls.Bound) == 0 || stalls.Others {
		return hold, detail
	}
	return HoldStalledWithinOwnLimits, strings.Join(stalls.Bound, ", ") + " met limits of their own, and no other pod stalled"
}

// awaitNewer holds a decision by figures of a disk that are from before the pressure, and so do not show what
// brought it about, while newer ones may come, unless the disk would be full before a victim
// could help.
func (u *Uses) awaitNewer(p *pressure.Pressure, d *Decision) (Hold, string) {
	text := fmt.Sprintf("the figures of %d pods are from before the pressure: %s", len(u.Outdated), wording.Few(u.Outdated))
	if wait := RenewedWithin - p.SampleTime.Sub(p.Since); wait > 0 && !TooLate(p, wait) {
		return HoldUsageUnknown, fmt.Sprintf("%s: waiting %v at most for newer ones", text, wait.Round(time.Second))
	}
	return d.passes(text)
}

// usesKnown holds a decision while what the pods use is not known well enough.
func usesKnown(s *Situation, d *Decision) (Hold, string) {
	u, onDisk := s.Uses, s.Pressure.Threshold.Signal.OnDisk()
	switch {
	case u.Err != nil && (u.Requested.IsZero() || !onDisk):
		return HoldUsageUnknown, u.Err.Error()
	case !onDisk:
		return u.Unread.await()
	case !s.DiskServes(u.Requested):
		return HoldUsageUnknown, "measuring the pods' disk use"
	case u.Err != nil:
		return HoldUsageUnknown, fmt.Sprintf("measuring the pods' disk use: %v", u.Err)
	case len(u.Outdated) > 0 && !s.explained():
		return u.awaitNewer(&s.Pressure, d)
	}
	return HoldNone, ""
}

// explained reports whether the pods' figures show what used up the signal lately, whatever may be missing in them.
func (s *Situation) explained() bool {
	took, lately := int64(0), s.shortage().Lately
	for _, use := range s.Uses.ByUID {
		took += max(0, use.Grown)
	}
	return lately > 0 && took >= lately/2
}

// Images is what is known of the images that no pod uses.
type Images struct {
	// Requested is when the newest count was requested whose outcome is known; the zero time where there
	// is none. Bytes is what they hold by it, and Elsewhere says that they are on another device.
	Requested time.Time
	Bytes     int64
	Elsewhere bool
	// Pending is when the count was requested that is under way; the zero time where none is. Err is why
	// the last one failed; nil where it did not.
	Pending time.Time
	Err     error
	// Line is the availability below which the kubelet removes them, 0 where it never does, and Within
	// how long it may take for that.
	Line   int64
	Within time.Duration
	// Below is since when the signal is below the line, and Still since when it has not risen; the zero
	// time while it is above.
	Below, Still time.Time
}

// imagesFirst holds a decision while images that no pod uses cover what is missing of the signal.
func imagesFirst(s *Situation, d *Decision) (Hold, string) {
	const unknown = "what images hold that no pod uses is not known, and no pod waits for it: "
	i, p := &s.Images, &s.Pressure
	now, missing := p.SampleTime, s.shortage().Missing
	known := !i.Requested.IsZero() && now.Sub(i.Requested) < ImagesMaxAge
	switch {
	case p.Threshold.Signal.Kind() != pressure.SpaceKind, known && (i.Elsewhere || i.Bytes < missing):
		return HoldNone, ""
	case known:
		return i.await(p, missing, d)
	case i.Err != nil:
		return d.passes(unknown + wording.OneLine(i.Err.Error()))
	case !i.Pending.IsZero() && now.Sub(i.Pending) < ImagesTimeout:
		// Not ImagesFirst, whose Event has the figures.
		return HoldUsageUnknown, "counting what images hold that no pod uses"
	}
	return d.passes(unknown + fmt.Sprintf("there was no answer within %v", ImagesTimeout))
}

// await holds a decision while the kubelet should still remove the images.
func (i *Images) await(p *pressure.Pressure, missing int64, d *Decision) (Hold, string) {
	signal, now := p.Threshold.Signal, p.SampleTime
	text := fmt.Sprintf("images that no pod uses hold %s, and %s are missing: ", wording.Amount(signal, i.Bytes), wording.Amount(signal, missing))
	if i.Line == 0 {
		return d.passes(text + "the kubelet is not configured to remove images")
	}
	line, below, still := wording.Amount(signal, i.Line), now.Sub(i.Below), now.Sub(i.Still)
	if i.Still.IsZero() {
		return HoldImagesFirst, text + "the kubelet removes them below " + line + ", before it evicts pods"
	}
	left := min(i.Within-still, ImagesBound*i.Within-below)
	if left <= 0 || still >= ImagesLook && TooLate(p, 0) {
		return d.passes(text + fmt.Sprintf("availability has been below %s, where the kubelet removes them, for %v, the last %v without a rise",
			line, below.Round(time.Second), still.Round(time.Second)))
	}
	return HoldImagesFirst, text + fmt.Sprintf("the kubelet removes them below %s: waiting %v at most for a rise", line, left.Round(time.Second))
}

// Noise returns how far a signal must move to count, in its unit: on a disk, logs, journals and
// databases move it that much all the time.
func Noise(p *pressure.Pressure) int64 { return p.Line / 1000 }

// endReserve is how long a victim that is still to be chosen takes to end: a pod's grace period,
// where it writes none.
const endReserve = 30 * time.Second

// TooLate reports whether a disk would be full before a victim that is chosen after the wait
// could have ended, as far as that is known.
func TooLate(p *pressure.Pressure, wait time.Duration) bool {
	if p.Observed.Available <= 0 {
		return true // what is full falls no further, and has no forecast
	}
	after, expected := p.Forecast.Exhaustion()
	return expected && after < wait+endReserve
}
