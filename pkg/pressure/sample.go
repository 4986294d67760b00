package pressure

import "time"

// State says what is known of a signal. The zero value is Unknown: a reading that was never
// filled in is not a number.
type State uint8

// The states of a reading.
const (
	// Unknown: the node has the signal, but it could not be read. No decision uses it.
	Unknown State = iota
	// Absent: the node has no such signal, for example inodes on a filesystem that
	// does not count them. Its thresholds never hold.
	Absent
	// Known: Available and Capacity are numbers read at Time.
	Known
)

// String returns the state as labels and snapshots write it.
func (s State) String() string {
	return [...]string{Unknown: "Unknown", Absent: "Absent", Known: "Known"}[s]
}

// Observation is one signal's reading.
type Observation struct {
	// State says whether the numbers are valid.
	State State
	// Available is what is left, in the signal's unit. It may be negative: for
	// allocatableMemory.available, when the pods use more than their limit.
	Available int64
	// Capacity is what there is in all, in the signal's unit.
	Capacity int64
	// Device is the device number of the filesystem that was read, as in stat(2); 0 for
	// other signals, and where there is no reading.
	Device uint64
	// Err says why the reading is Unknown or Absent; nil when it is Known.
	Err error
}

// Sample is one reading of the node.
type Sample struct {
	// Time is taken just before the reading, so that nothing in the sample is older. It
	// carries Go's monotonic clock, so that a step of the wall clock does not affect
	// computations.
	Time time.Time
	// Observations holds one entry for each signal. Signals without a threshold stay Absent.
	Observations [SignalCount]Observation
}

// Of returns the reading of one signal.
func (s *Sample) Of(signal Signal) Observation { return s.Observations[signal] }
