package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// Space on a disk often comes back by itself: the kubelet and the runtime are deleting
// images, a log is rotated, a job cleans up, or the last victim's containers are still to
// be removed. A pod that goes meanwhile goes for nothing. So before anybody is chosen for
// a disk:
//
//   - the settle window passes, from when the threshold was first met, or from when a
//     victim of evictd's last ended. A grace period that is as long has the window in it;
//   - then it goes on while what is available rises fast enough to relieve the pressure
//     before settleBound windows are over. What is slower than that comes too late, and
//     what goes up and down comes and goes;
//   - and victims that have gone, whose space would suffice, are waited for until it is back,
//     inflight.CollectedWithin at most. That wait does not depend on the window.
//
// None of that is waited for once the disk would be full before a victim could help.
// Memory and PIDs are not waited for here. What a victim gave back and MemAvailable does not
// show yet counts as in flight (percpu.go).

// settleReadings is how many readings a settle window is judged by at most. Under pressure
// the loop makes ten a second with the default sampling.
const settleReadings = 20

// settleBound is how many settle windows a decision waits for space that comes back. By
// the default that is a minute: each of the kubelet's collections of dead containers,
// one a minute, has had its turn (ContainerGCPeriod, pkg/kubelet/kubelet.go).
const settleBound = 6

// settling is what has been seen of space that comes back. The zero value has seen
// nothing.
type settling struct {
	space [pressure.SignalCount][]spaceReading // under pressure, the oldest first
}

type spaceReading struct {
	at        time.Time
	available int64
}

// noteSpace follows the disks that are under pressure, and the victims that have ended.
func (a *Agent) noteSpace(sample *pressure.Sample, verdict *pressure.Verdict, ended []inflight.Booking) {
	a.followReturning(sample, ended)
	if a.policy.Settle == 0 || verdict.Stale {
		return
	}
	s := &a.settling
	met := [pressure.SignalCount]bool{}
	for _, lines := range [][]pressure.Pressure{verdict.Pressures, verdict.Waiting} {
		for i := range lines {
			met[lines[i].Threshold.Signal] = lines[i].Threshold.Signal.OnDisk()
		}
	}
	for signal := range s.space {
		switch seen := sample.Observations[signal]; {
		case met[signal]:
			s.note(pressure.Signal(signal), spaceReading{sample.Time, seen.Available}, a.policy.Settle)
		case seen.State == pressure.Known:
			s.space[signal] = s.space[signal][:0]
		}
	}
}

// note keeps the readings of one window.
func (s *settling) note(signal pressure.Signal, now spaceReading, window time.Duration) {
	kept := s.space[signal]
	if n := len(kept); n > 0 && now.at.Sub(kept[n-1].at) < window/settleReadings {
		return
	}
	old := 0
	for old < len(kept) && now.at.Sub(kept[old].at) > window {
		old++
	}
	s.space[signal] = append(slices.Delete(kept, 0, old), now)
}

// rise returns how far the signal stands above its lowest within the window. Each point
// is the median of three readings in a row: a single odd one is neither.
func (s *settling) rise(signal pressure.Signal) int64 {
	kept := s.space[signal]
	if len(kept) < 3 {
		return 0
	}
	last, lowest := int64(0), kept[0].available
	for i := range len(kept) - 2 {
		a, b, c := kept[i].available, kept[i+1].available, kept[i+2].available
		last = max(min(a, b), min(max(a, b), c))
		if i == 0 || last < lowest {
			lowest = last
		}
	}
	return last - lowest
}

// comesBack holds a decision about a disk while space may come back by itself.
func (a *Agent) comesBack(p *pressure.Pressure) (decide.Hold, string) {
	if !p.Threshold.Signal.OnDisk() {
		return decide.HoldNone, ""
	}
	wait, why := a.awaitCollection(p)
	if wait <= 0 && a.policy.Settle > 0 {
		wait, why = a.awaitSettling(p)
	}
	if wait <= 0 || decide.TooLate(p, wait) {
		return decide.HoldNone, ""
	}
	return decide.HoldSettleWindow, fmt.Sprintf("%s: waiting %v at most", why, wait.Round(100*time.Millisecond))
}

// awaitCollection returns how long victims that have gone are still waited for, where their
// space should suffice, and why.
func (a *Agent) awaitCollection(p *pressure.Pressure) (time.Duration, string) {
	signal := p.Threshold.Signal
	expected, last := a.victims.Returning(signal)
	if expected == 0 || expected < decide.ShortageOf(p, 0).ToTarget {
		return 0, ""
	}
	return inflight.CollectedWithin - p.SampleTime.Sub(last),
		fmt.Sprintf("the kubelet removes dead containers once a minute, and victims that have gone held %s", wording.Amount(signal, expected))
}

// awaitSettling returns how long the pressure is still given to end by itself, and why.
func (a *Agent) awaitSettling(p *pressure.Pressure) (time.Duration, string) {
	signal, window, since := p.Threshold.Signal, a.policy.Settle, p.Since
	if ended := a.victims.LastDiskEnd(); ended.After(since) {
		since = ended
	}
	waited := p.SampleTime.Sub(since)
	if waited < window {
		return window - waited, "space may come back by itself"
	}
	back, left := a.settling.rise(signal), settleBound*window-waited
	inTime := float64(decide.ShortageOf(p, 0).ToTarget)/float64(back)*float64(window) <= float64(left)
	if back <= 0 || back < decide.Noise(p) || !inTime {
		return 0, ""
	}
	return left, fmt.Sprintf("%s came back within %v and %s are missing", wording.Amount(signal, back), window, wording.Amount(signal, decide.ShortageOf(p, 0).ToTarget))
}
