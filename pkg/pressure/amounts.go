package pressure

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Amounts are figures by signal, each in its signal's unit: what a pod uses, or what its end
// should reclaim. A signal without a figure is unknown, which is not zero. Amounts is a
// plain value that can be compared; its zero value knows no signal. In JSON it is an object
// keyed by signal name.
type Amounts struct {
	values [SignalCount]int64
	known  [SignalCount]bool
}

// Of returns the amount of the signal; known is false where there is no figure.
func (a Amounts) Of(s Signal) (amount int64, known bool) { return a.values[s], a.known[s] }

// At returns the amount of the signal, or 0 where it is unknown. Use it where an unknown
// amount must not be counted on.
func (a Amounts) At(s Signal) int64 { return a.values[s] }

// With returns the amounts with a figure for the signal.
func (a Amounts) With(s Signal, amount int64) Amounts {
	a.values[s], a.known[s] = amount, true
	return a
}

// Without returns the amounts with none for the signal.
func (a Amounts) Without(s Signal) Amounts {
	a.values[s], a.known[s] = 0, false
	return a
}

// Updated returns the amounts with the newer ones in place of their own. Signals that newer
// does not know keep their amount.
func (a Amounts) Updated(newer Amounts) Amounts {
	for s, amount := range newer.each {
		a = a.With(s, amount)
	}
	return a
}

// OnDisk returns the amounts of filesystem signals.
func (a Amounts) OnDisk() Amounts {
	var kept Amounts
	for s, amount := range a.each {
		if s.OnDisk() {
			kept = kept.With(s, amount)
		}
	}
	return kept
}

// each calls yield with the known amounts.
func (a Amounts) each(yield func(Signal, int64) bool) {
	for s := range SignalCount {
		if a.known[s] && !yield(s, a.values[s]) {
			return
		}
	}
}

// MarshalJSON writes the known amounts, keyed by signal name.
func (a Amounts) MarshalJSON() ([]byte, error) { return json.Marshal(maps.Collect(a.each)) }

// UnmarshalJSON reads what MarshalJSON writes. An unknown signal name is an error.
func (a *Amounts) UnmarshalJSON(text []byte) error {
	var all map[Signal]int64
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("amounts by signal: %w", err)
	}
	*a = Amounts{}
	for s, amount := range all {
		*a = a.With(s, amount)
	}
	return nil
}
