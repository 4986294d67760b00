package pressure

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Quantity is an amount of a signal: absolute, or a share of its capacity. The
// zero value is the absolute amount 0.
type Quantity struct {
	absolute int64
	fraction float32
	relative bool
}

// Absolute is n bytes, inodes or tasks.
func Absolute(n int64) Quantity { return Quantity{absolute: n} }

// Fraction is a share of the capacity; 0.1 is a tenth. It is a float32 because the kubelet
// stores percentages as float32, and the same text must give both the same number of bytes
// (pkg/kubelet/eviction/api/types.go).
func Fraction(f float32) Quantity { return Quantity{fraction: f, relative: true} }

// Of returns the amount for a signal with that capacity, rounded as the kubelet
// rounds it.
func (q Quantity) Of(capacity int64) int64 {
	if q.relative {
		return int64(float64(capacity) * float64(q.fraction))
	}
	return q.absolute
}

// IsZero reports whether the amount is 0 for every capacity.
func (q Quantity) IsZero() bool { return q.absolute == 0 && q.fraction == 0 }

// String returns a percentage or a plain number.
func (q Quantity) String() string {
	if q.relative {
		return strconv.FormatFloat(float64(q.fraction)*100, 'g', 6, 64) + "%"
	}
	return strconv.FormatInt(q.absolute, 10)
}

// Threshold is a line that a signal should not fall below.
type Threshold struct {
	// Signal is what is watched.
	Signal Signal
	// Quantity is the line: the threshold is met while available < quantity,
	// strictly, as in the kubelet.
	Quantity Quantity
	// Written is the line as the configuration writes it, for people: "5%", "500Mi"; ""
	// where it is unknown. No decision uses it.
	Written string
	// Hard says that there is no grace period. Like the kubelet, evictd treats a soft
	// threshold with a grace period of 0 as a hard one.
	Hard bool
	// Grace is how long a soft threshold must be met before it holds; 0 when Hard.
	Grace time.Duration
	// MinReclaim is how far above the line the signal must rise before a threshold that held
	// is over. 0 means just back to the line.
	MinReclaim Quantity
}

// Kind returns "Hard" or "Soft", as labels and records write it.
func (t Threshold) Kind() string {
	if t.Hard {
		return "Hard"
	}
	return "Soft"
}

// String returns the threshold as the kubelet's flags write it, with its kind.
func (t Threshold) String() string {
	return fmt.Sprintf("%s<%s (%s)", t.Signal, t.Quantity, strings.ToLower(t.Kind()))
}

// Compare orders thresholds by what must be handled first: hard before soft, then the order
// of the signals, then the shorter grace period.
func (t Threshold) Compare(other Threshold) int {
	return cmp.Or(cmp.Compare(t.Kind(), other.Kind()), cmp.Compare(t.Signal, other.Signal), cmp.Compare(t.Grace, other.Grace))
}
