package decide

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// Space on a disk is often reclaimed without an eviction, and a pod that is evicted meanwhile is
// evicted without need: docs/adr/0008-stabilization-window-for-disks.md.

// StabilizationBound is for how many stabilization windows a decision waits for space to be
// reclaimed. By default that is a minute, so that the kubelet, which collects dead containers once
// a minute, has done so (ContainerGCPeriod, pkg/kubelet/kubelet.go).
const StabilizationBound = 6

// Space is what is known of a disk's space that comes back.
type Space struct {
	// Returning is what victims held that have ended and whose space has not come back yet, in
	// the signal's unit; ReturningSince is when the last of them ended.
	Returning      int64
	ReturningSince time.Time
	// LastEnd is when a victim with space on a disk ended last; the zero time when none has.
	LastEnd time.Time
	// Rise is how far the signal stands above its lowest within the stabilization window.
	Rise int64
}

// carefulStart holds a decision about a disk that was short from the start while a victim of the
// process before may still give space back, unless the disk would be full before that.
func carefulStart(s *Situation, _ *Decision) (Hold, string) {
	p := &s.Pressure
	why, waits := s.Cooldown.Start(p.Threshold.Signal, p.SampleTime)
	if !waits || TooLate(p, why.Until.Sub(p.SampleTime)) {
		return HoldNone, ""
	}
	return HoldStabilizationWindow, why.Detail
}

// stabilization holds a decision about a disk while space may be reclaimed without an eviction.
func stabilization(s *Situation, _ *Decision) (Hold, string) {
	p := &s.Pressure
	if !p.Threshold.Signal.OnDisk() {
		return HoldNone, ""
	}
	wait, why := s.Space.awaitCollection(p)
	if wait <= 0 && s.Policy.Stabilization > 0 {
		wait, why = s.Space.awaitRise(p, s.Policy.Stabilization)
	}
	if wait <= 0 || TooLate(p, wait) {
		return HoldNone, ""
	}
	return HoldStabilizationWindow, fmt.Sprintf("%s: waiting %v at most", why, wait.Round(100*time.Millisecond))
}

// awaitCollection returns how long victims that have ended are still waited for, when their space
// should suffice, and why.
func (s *Space) awaitCollection(p *pressure.Pressure) (time.Duration, string) {
	if s.Returning == 0 || s.Returning < ShortageOf(p, 0).ToTarget {
		return 0, ""
	}
	return inflight.CollectedWithin - p.SampleTime.Sub(s.ReturningSince),
		fmt.Sprintf("the kubelet removes dead containers once a minute, and victims that have gone held %s",
			wording.Amount(p.Threshold.Signal, s.Returning))
}

// awaitRise returns how much longer the pressure may end without an eviction, and why.
func (s *Space) awaitRise(p *pressure.Pressure, window time.Duration) (time.Duration, string) {
	signal, since, missing := p.Threshold.Signal, p.Since, ShortageOf(p, 0).ToTarget
	if s.LastEnd.After(since) {
		since = s.LastEnd
	}
	waited := p.SampleTime.Sub(since)
	if waited < window {
		return window - waited, "space may come back by itself"
	}
	left := StabilizationBound*window - waited
	inTime := float64(missing)/float64(s.Rise)*float64(window) <= float64(left)
	if s.Rise <= 0 || s.Rise < Noise(p) || !inTime {
		return 0, ""
	}
	return left, fmt.Sprintf("%s came back within %v and %s are missing", wording.Amount(signal, s.Rise), window, wording.Amount(signal, missing))
}
