package cooldown

import (
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// shortOf is a sample in which these signals are known and those meet a threshold.
func shortOf(at time.Time, known, met []pressure.Signal) (*pressure.Sample, *pressure.Verdict) {
	sample, verdict := &pressure.Sample{Time: at}, &pressure.Verdict{Time: at}
	for _, signal := range known {
		sample.Observations[signal].State = pressure.Known
	}
	for n, signal := range met {
		p := pressure.Pressure{Threshold: pressure.Threshold{Signal: signal}}
		if n%2 == 0 { // a threshold that waits for its grace period is met too
			verdict.Pressures = append(verdict.Pressures, p)
		} else {
			verdict.Waiting = append(verdict.Waiting, p)
		}
	}
	return sample, verdict
}

// A careful start is one for what the first reading of a signal meets: a shortage that begins later
// is this process's own, and so is one of a process that knows the time before.
func TestCarefulStart(t *testing.T) {
	t.Parallel()
	const memory, disk, inodes = pressure.MemoryAvailable, pressure.NodeFSAvailable, pressure.NodeFSInodesFree
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := []pressure.Signal{memory, disk, inodes}
	for name, test := range map[string]struct {
		known        bool // what was before
		stale        bool
		first, later []pressure.Signal // what the first sample and the second one meet
		unread       []pressure.Signal // what the first one does not know
		limited      bool              // one eviction is left
		waits        []pressure.Signal
	}{
		"calm":                             {},
		"memory is short":                  {first: []pressure.Signal{memory}, limited: true},
		"disks are short":                  {first: []pressure.Signal{disk, inodes}, limited: true, waits: []pressure.Signal{disk, inodes}},
		"a disk is short later":            {later: []pressure.Signal{disk}},
		"a disk is read later":             {unread: []pressure.Signal{disk}, later: []pressure.Signal{disk}, limited: true, waits: []pressure.Signal{disk}},
		"what was before is known":         {known: true, first: all},
		"the first sample is a stale copy": {stale: true, first: []pressure.Signal{disk}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracker := New(Limits{PerMinute: 6}, nil)
			if !test.known {
				tracker.StartCarefully(75 * time.Second)
			}
			known := func(not []pressure.Signal) []pressure.Signal {
				var known []pressure.Signal
				for _, signal := range all {
					if len(not) == 0 || signal != not[0] {
						known = append(known, signal)
					}
				}
				return known
			}
			sample, verdict := shortOf(began, known(test.unread), test.first)
			verdict.Stale = test.stale
			counted := tracker.ObserveStart(sample, verdict)
			now := began.Add(time.Second)
			counted = tracker.ObserveStart(shortOf(now, all, test.later)) || counted
			if tracker.ObserveStart(shortOf(now, all, test.later)) {
				t.Error("counted twice")
			}
			tracker.Accept("", false, now)
			if _, reached := tracker.Node(now); reached != test.limited || counted != test.limited {
				t.Errorf("the limit is reached after one eviction: %v, counted: %v; want %v", reached, counted, test.limited)
			}
			if _, reached := tracker.Node(now.Add(time.Minute)); reached {
				t.Error("the limit is reached after a minute")
			}
			wantWaits(t, tracker, now, test.waits)
			wantWaits(t, tracker, now.Add(75*time.Second), nil)
		})
	}
}

// wantWaits fails the test unless these signals wait for what was before the start.
func wantWaits(t *testing.T, tracker *Tracker, now time.Time, want []pressure.Signal) {
	t.Helper()
	waiting := [pressure.SignalCount]bool{}
	for _, signal := range want {
		waiting[signal] = true
	}
	for _, signal := range pressure.Signals() {
		why, waits := tracker.Start(signal, now)
		if waits != waiting[signal] || waits && (why.Kind != CarefulStart || !why.Until.After(now) || why.Detail == "") {
			t.Errorf("%v at %v: waits %v for %+v, want %v", signal, now, waits, why, waiting[signal])
		}
	}
}
