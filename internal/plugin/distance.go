package plugin

import (
	"math"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// distance is how far a signal is from one of its thresholds.
type distance struct {
	signal pressure.Signal
	kind   string // Hard or Soft
	above  int64  // in the signal's unit; negative where the threshold is met
	// left is the part of what there is above the threshold that is left, at most 1: signals of
	// different units are compared by it.
	left float64
	// hard is when the hard threshold will be met as things go; 0 where that is not known, or never.
	hard time.Duration
}

// nearest returns the signal that is nearest to a threshold: of each signal the next threshold that
// is not met, or the lowest when all are. False where no signal is known that has a threshold.
func nearest(m metrics) (distance, bool) {
	var least distance
	found := false
	for _, signal := range pressure.Signals() {
		if d, known := distanceOf(m, signal); known && (!found || d.left < least.left) {
			least, found = d, true
		}
	}
	return least, found
}

func distanceOf(m metrics, signal pressure.Signal) (distance, bool) {
	unit, per := unitOf(signal)
	name := signal.String()
	available, known := m.of("evictd_signal_available_"+unit, name)
	capacity, whole := m.of("evictd_signal_capacity_"+unit, name)
	if !known || !whole {
		return distance{}, false
	}
	d, found := distance{signal: signal}, false
	for _, line := range m.all("evictd_threshold_line_" + unit) {
		if line.labels["signal"] != name {
			continue
		}
		above := int64(math.Round((available - line.value) * per))
		if found && !nearer(above, d.above) {
			continue
		}
		d.kind, d.above, found = line.labels["kind"], above, true
		d.left = (available - line.value) / max(capacity-line.value, 1/per)
	}
	if seconds, told := m.of("evictd_forecast_seconds", name); told && !math.IsInf(seconds, 0) {
		d.hard = time.Duration(seconds * float64(time.Second))
	}
	return d, found
}

// nearer reports whether a distance to a threshold matters more than another of the same signal.
func nearer(a, b int64) bool {
	if (a >= 0) != (b >= 0) {
		return a >= 0 // the other is met
	}
	if a >= 0 {
		return a < b
	}
	return a > b
}

// unitOf returns the unit in the names of a signal's metrics, and how many of the signal's own unit
// make one.
func unitOf(signal pressure.Signal) (string, float64) {
	if signal.Unit() == pressure.Microseconds {
		return "seconds", 1e6
	}
	return string(signal.Unit()), 1
}

// String is the distance in words.
func (d distance) String() string {
	above, side := d.above, " above "
	if above < 0 {
		above, side = -above, " below "
	}
	amount := wording.Amount(d.signal, above)
	if d.signal.Unit() == pressure.Microseconds {
		amount = wording.Rounded(time.Duration(above) * time.Microsecond).String()
	}
	text := d.signal.String() + " " + amount + side + strings.ToLower(d.kind)
	if d.hard > 0 {
		text += ", hard in " + wording.Rounded(d.hard).String()
	}
	return text
}
