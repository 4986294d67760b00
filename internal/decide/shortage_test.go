package decide

import (
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

func TestShortage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		available, inFlight int64
		want                Shortage
		margin              bool
		required, ofDisk    int64 // with a minimum share of an eighth, and of 10
	}{
		{40, 0, Shortage{ToLine: 60, ToTarget: 80, Missing: 80, MissingToLine: 60}, false, 60, 60},
		{40, 25, Shortage{ToLine: 60, ToTarget: 80, InFlight: 25, Missing: 55, MissingToLine: 35}, false, 35, 35},
		{99, 0, Shortage{ToLine: 1, ToTarget: 21, Missing: 21, MissingToLine: 1}, false, 1, 10},
		{40, 60, Shortage{ToLine: 60, ToTarget: 80, InFlight: 60, Missing: 20}, true, 2, 20},
		{100, 0, Shortage{ToTarget: 20, Missing: 20}, true, 2, 20},
		{115, 0, Shortage{ToTarget: 5, Missing: 5}, true, 0, 10},
		{115, 5, Shortage{ToTarget: 5, InFlight: 5}, false, 0, 0},
		{120, 0, Shortage{}, false, 0, 0},
		{500, 500, Shortage{InFlight: 500}, false, 0, 0},
		{-50, 10, Shortage{ToLine: 150, ToTarget: 170, InFlight: 10, Missing: 160, MissingToLine: 140}, false, 140, 140},
		{40, -3, Shortage{ToLine: 60, ToTarget: 80, Missing: 80, MissingToLine: 60}, false, 60, 60},
	} {
		p := pressure.Pressure{Line: 100, Target: 120, Observed: pressure.Observation{Available: test.available}}
		got := ShortageOf(&p, test.inFlight)
		if got != test.want || got.InMargin() != test.margin {
			t.Errorf("%d available, %d in flight: %+v, in the margin: %t; want %+v, %t",
				test.available, test.inFlight, got, got.InMargin(), test.want, test.margin)
		}
		if required := got.Required(&p, pressure.Fraction(0.125)); required != test.required {
			t.Errorf("%d available, %d in flight: %d required, want %d", test.available, test.inFlight, required, test.required)
		}
		p.Threshold.Signal = pressure.NodeFSAvailable
		if required := got.Required(&p, pressure.Absolute(10)); required != test.ofDisk {
			t.Errorf("%d available, %d in flight: %d required of a disk, want %d", test.available, test.inFlight, required, test.ofDisk)
		}
	}
}
