package decide

import "github.com/evictd/evictd/pkg/pressure"

// Reclaim is what a pod's end should free.
type Reclaim struct {
	Amount int64 // in the signal's unit
	Known  bool
}

// ReclaimOf returns what a pod's end should free of the signal. For a stall the bookings only say
// which pods are waited for, not how much of it would end.
func ReclaimOf(signal pressure.Signal, expected pressure.Amounts) Reclaim {
	amount, known := expected.Of(signal)
	return Reclaim{Amount: amount, Known: known && signal.Reclaim() != pressure.ReclaimUnknown}
}

// Suffice reports whether the candidates could return what is missing, for all that is
// known.
func Suffice(missing int64, candidates []Reclaim) bool {
	for _, c := range candidates {
		if missing -= c.Amount; !c.Known || missing <= 0 {
			return true
		}
	}
	return missing <= 0
}

// Total adds up what is known.
func Total(releases []Reclaim) int64 {
	all := int64(0)
	for _, r := range releases {
		all += r.Amount
	}
	return all
}
