package decide_test

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// A plan is canceled where its pressure is over or cannot be read, and a soft one where a hard
// pressure began after it.
func TestPlanIsObsolete(t *testing.T) {
	t.Parallel()
	const memory, disk = pressure.MemoryAvailable, pressure.NodeFSAvailable
	hardDisk := func(since time.Time) *pressure.Verdict {
		return &pressure.Verdict{Pressures: []pressure.Pressure{{Threshold: pressure.Threshold{Signal: disk, Hard: true}, Since: since}}}
	}
	for name, test := range map[string]struct {
		available int64
		fault     error
		soft      bool
		verdict   *pressure.Verdict
		want      string
		urgent    bool
	}{
		"it holds on":                              {60, nil, true, &pressure.Verdict{}, "", false},
		"it is over":                               {100, nil, true, &pressure.Verdict{}, "recovered meanwhile", false},
		"it cannot be read":                        {60, errors.New("planted"), true, &pressure.Verdict{}, "memory.available could not be read: planted", false},
		"a hard one began since":                   {60, nil, true, hardDisk(noon().Add(1)), "the hard threshold of nodefs.available was met meanwhile", true},
		"a hard one was there, and had its turn":   {60, nil, true, hardDisk(noon()), "", false},
		"a hard one began since, and it is a hard": {60, nil, false, hardDisk(noon().Add(1)), "", false},
	} {
		s := short(memory)
		s.Pressure.Threshold.Hard = !test.soft
		d := decide.Decision{Time: noon(), Pressure: s.Pressure}
		s.Sample.Observations[memory].Available = test.available
		if test.fault != nil {
			s.Sample.Observations[memory] = pressure.Observation{Err: test.fault}
		}
		why, urgent := decide.Obsolete(&d, s.Policy, s.Sample, test.verdict)
		if why != test.want || urgent != test.urgent {
			t.Errorf("%s: %q, %v, want %q, %v", name, why, urgent, test.want, test.urgent)
		}
	}
}

// The second look holds where less is missing by now than is in flight. That it holds where the pressure is over, or cannot
// be read, is in internal/sim.
func TestSecondLook(t *testing.T) {
	t.Parallel()
	const memory = pressure.MemoryAvailable
	for available, want := range map[int64]decide.Hold{60: decide.HoldNone, 80: decide.HoldReclaimInProgress} {
		s := short(memory)
		s.InFlight = []decide.Victim{{
			UID: "uid-other", Expected: pressure.Amounts{}.With(memory, 30), Accepted: noon(), Deadline: noon().Add(time.Minute),
		}}
		again := *s.Sample
		again.Observations[memory].Available = available
		var plan decide.Plan
		if plan.LookAgain(s, &again); plan.Decision.Hold != want {
			t.Errorf("%d available: %q, want %q", available, plan.Decision.Hold, want)
		}
	}
}

// A victim is relied on to its deadline; one of evictd's by a hard pressure for no longer than its patience.
func TestReliedOn(t *testing.T) {
	t.Parallel()
	const own, others = "memory.available", ""
	for name, test := range map[string]struct {
		signal string
		hard   bool
		after  time.Duration
		want   bool
	}{
		"others end it, at its deadline":         {others, true, time.Hour, true},
		"others end it, after its deadline":      {others, false, time.Hour + 1, false},
		"within the patience of a hard pressure": {own, true, decide.HardPatience, true},
		"over it":                                {own, true, decide.HardPatience + 1, false},
		"a soft pressure waits to the deadline":  {own, false, time.Hour, true},
	} {
		p := pressure.Pressure{Threshold: pressure.Threshold{Hard: test.hard}, SampleTime: noon().Add(test.after)}
		v := decide.Victim{Signal: test.signal, Accepted: noon(), Deadline: noon().Add(time.Hour)}
		if got := v.ReliedOn(&p); got != test.want {
			t.Errorf("%s: relied on %v, want %v", name, got, test.want)
		}
	}
}
