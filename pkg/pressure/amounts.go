package pressure

import (
	"encoding/json"
	"fmt"
)

// Amounts are figures by signal, each in its signal's unit: what a pod holds, or what its end
// should give back. A signal that has none is not known, which is not zero. It is a plain value
// that can be compared; the zero value knows none. In JSON it is an object of signal names.
type Amounts struct {
	values [SignalCount]int64
	known  [SignalCount]bool
}

// Of returns the amount of the signal; false where it is not known.
func (a Amounts) Of(s Signal) (amount int64, known bool) { return a.values[s], a.known[s] }

// At returns the amount of the signal; 0 where it is not known. It is for what is relied on:
// nothing that is not known is.
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

// Updated returns the amounts with the newer ones in place of their own. What the newer ones do
// not know stays as it was.
func (a Amounts) Updated(newer Amounts) Amounts {
	for s, known := range newer.known {
		if known {
			a.values[s], a.known[s] = newer.values[s], true
		}
	}
	return a
}

// OnDisk returns those of filesystems.
func (a Amounts) OnDisk() Amounts {
	for s := range signalCount {
		if !s.OnDisk() {
			a = a.Without(s)
		}
	}
	return a
}

// MarshalJSON writes the amounts that are known by the names of their signals.
func (a Amounts) MarshalJSON() ([]byte, error) {
	named := make(map[string]int64, SignalCount)
	for s := range signalCount {
		if amount, known := a.Of(s); known {
			named[s.String()] = amount
		}
	}
	return json.Marshal(named)
}

// UnmarshalJSON reads what MarshalJSON writes. A name that is no signal's is an error.
func (a *Amounts) UnmarshalJSON(text []byte) error {
	var named map[string]int64
	if err := json.Unmarshal(text, &named); err != nil {
		return fmt.Errorf("amounts by signal: %w", err)
	}
	*a = Amounts{}
	for name, amount := range named {
		s, err := ParseSignal(name)
		if err != nil {
			return fmt.Errorf("amounts by signal: %w", err)
		}
		*a = a.With(s, amount)
	}
	return nil
}
