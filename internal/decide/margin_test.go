package decide_test

import (
	"testing"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// TestMargin: what is in flight beyond the need bounds how long the node is not read, for a hard pressure
// that can grow by the gigabyte a second, and only while it waits for what is in flight.
func TestMargin(t *testing.T) {
	t.Parallel()
	memory, disk := pressure.MemoryAvailable, pressure.NodeFSAvailable
	for name, test := range map[string]struct {
		signal   pressure.Signal
		soft     bool
		hold     decide.Hold
		inFlight int64
		want     int64
		is       bool
	}{
		"beyond the line":           {memory, false, decide.HoldReclaimInProgress, 60, 10, true},
		"not even the line":         {memory, false, decide.HoldReclaimInProgress, 40, 0, true},
		"a soft threshold":          {memory, true, decide.HoldReclaimInProgress, 100, 0, false},
		"a disk fills slowly":       {disk, false, decide.HoldReclaimInProgress, 100, 0, false},
		"held for another reason":   {memory, false, decide.HoldBackingOff, 100, 0, false},
		"a pod is evicted":          {memory, false, decide.HoldNone, 100, 0, false},
		"tasks run out as suddenly": {pressure.PIDAvailable, false, decide.HoldReclaimInProgress, 100, 50, true},
	} {
		expected := pressure.Amounts{}.With(test.signal, test.inFlight)
		known := decide.Situation{
			Pressure: pressure.Pressure{
				Threshold: pressure.Threshold{Signal: test.signal, Hard: !test.soft}, Line: 100, Target: 120,
				Observed: pressure.Observation{State: pressure.Known, Available: 50, Capacity: 1000},
			},
			Policy:   &decide.Policy{},
			InFlight: []decide.Victim{{UID: "uid-victim", Expected: expected}},
		}
		if got, is := known.Margin(&decide.Decision{Hold: test.hold}); got != test.want || is != test.is {
			t.Errorf("%s: %d, %v; want %d, %v", name, got, is, test.want, test.is)
		}
	}
}
