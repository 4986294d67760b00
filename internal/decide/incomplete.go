package decide

import (
	"fmt"

	"github.com/evictd/evictd/pkg/pressure"
)

func incompleteReading(s *Situation, _ *Decision) (Hold, string) {
	if fault := Incomplete(s.Sample, s.Policy.Thresholds, s.Pressure.Threshold.Signal); fault != "" {
		return HoldIncompleteReading, fault
	}
	return HoldNone, ""
}

// Incomplete names a signal that a decision about the given one needs and that could not be read;
// "" when there is none. No pod is evicted from such a sample. A decision needs the signals of the
// same resource that have a threshold: a filesystem that hangs does not affect decisions about
// memory.
func Incomplete(sample *pressure.Sample, thresholds []pressure.Threshold, about pressure.Signal) string {
	for i := range thresholds {
		signal := thresholds[i].Signal
		if seen := sample.Of(signal); seen.State == pressure.Unknown && sameReadings(about, signal) {
			return fmt.Sprintf("%v could not be read: %v", signal, seen.Err)
		}
	}
	return ""
}

// sameReadings reports whether two signals are about one resource. For disks each signal counts
// separately, because the device of a filesystem that does not respond is not known.
func sameReadings(a, b pressure.Signal) bool {
	return a == b || !a.OnDisk() && a.Kind() == b.Kind()
}
