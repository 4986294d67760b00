package config

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/wording"
)

// faults collects what is wrong with a configuration, and the keys of the labels that it names.
type faults struct {
	all       field.ErrorList
	labelKeys []string
}

// err returns nil, or an error with every fault where there are some: first the unknown fields, then the
// values, each in an order that depends on the file alone. A value of the wrong type stands alone.
func (f *faults) err() error {
	if len(f.all) == 0 {
		return nil
	}
	return fmt.Errorf("invalid configuration: %w", f.all.ToAggregate())
}

// add adds faults, each of which is one line.
func (f *faults) add(all ...*field.Error) {
	for _, fault := range all {
		fault.Field = wording.OneLine(fault.Field)
	}
	f.all = append(f.all, all...)
}

func (f *faults) invalid(path *field.Path, value any, detail string) {
	f.add(field.Invalid(path, value, detail))
}

// oneOf refuses a value that is none of those allowed.
func oneOf[T ~string](f *faults, path *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		f.add(field.NotSupported(path, value, allowed))
	}
}

// between refuses a value below low or above high. Why is what follows the bounds, or "".
func between[T cmp.Ordered](f *faults, path *field.Path, value, low, high T, why string) {
	if value < low || value > high {
		f.invalid(path, shown(value), fmt.Sprintf("must be between %v and %v%s", low, high, why))
	}
}

// atLeast refuses a value below low.
func atLeast[T cmp.Ordered](f *faults, path *field.Path, value, low T, why string) {
	if value < low {
		f.invalid(path, shown(value), fmt.Sprintf("must be at least %v%s", low, why))
	}
}

// shown returns a value as a fault has it: a duration with its unit.
func shown(value any) any {
	if text, ok := value.(fmt.Stringer); ok {
		return text.String()
	}
	return value
}
