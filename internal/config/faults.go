package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/wording"
)

// faults collects what is wrong with a configuration, and the keys of the labels that it names.
type faults struct {
	all       []fault
	labelKeys []string

	file   string                  // its name; without one a fault names no line
	places map[string]int          // the lines of the fields that the file has, by their paths, and of the whole configuration by ""
	above  int                     // the lines of the file above the text that has the configuration
	only   int                     // the one line of a configuration that is a text in quotes, else 0
	unfit  bool                    // a value is missing, because it fits its field in no form
	forms  map[string]*field.Error // by their paths, values that fit in another form: faults, unless they are not valid in that one
}

// fault is one line: what is wrong, behind the field's path if there is one.
type fault struct {
	line int
	text string
}

// err returns nil, or an error with every fault where there are some, in the order of the lines.
func (f *faults) err() error {
	if len(f.all) == 0 {
		return nil
	}
	slices.SortStableFunc(f.all, func(a, b fault) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.text, b.text)) })
	errs := make([]error, 0, len(f.all))
	for _, one := range f.all {
		if f.file != "" {
			one.text = fmt.Sprintf("%s:%d: %s", f.file, one.line, one.text)
		}
		errs = append(errs, errors.New(wording.OneLine(one.text)))
	}
	return fmt.Errorf("invalid configuration: %w", utilerrors.NewAggregate(errs))
}

// line returns the line of a field, or that of what it would be in where the file does not have it.
func (f *faults) line(path string) int {
	for f.places[path] == 0 && path != "" {
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return cmp.Or(f.only, f.above+f.places[path])
}

// at adds a fault of no field.
func (f *faults) at(line int, text string) {
	f.all = append(f.all, fault{cmp.Or(f.only, f.above+line), text})
}

// add adds faults of fields. Durations have their units.
func (f *faults) add(all ...*field.Error) {
	for _, err := range all {
		if d, is := err.BadValue.(time.Duration); is {
			err.BadValue = d.String()
		}
		delete(f.forms, err.Field)
		f.all = append(f.all, fault{f.line(err.Field), err.Error()})
	}
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
		f.invalid(path, value, fmt.Sprintf("must be between %v and %v%s", low, high, why))
	}
}

// atLeast refuses a value below low.
func atLeast[T cmp.Ordered](f *faults, path *field.Path, value, low T, why string) {
	if value < low {
		f.invalid(path, value, fmt.Sprintf("must be at least %v%s", low, why))
	}
}

// meant asks for the word from which a wrong one differs in its case or within two letters, or says something else where there is none.
func meant(wrong string, words []string, otherwise string) string {
	for _, word := range words {
		a, b := wrong, word
		for a != "" && b != "" && strings.EqualFold(a[:1], b[:1]) {
			a, b = a[1:], b[1:]
		}
		for a != "" && b != "" && strings.EqualFold(a[len(a)-1:], b[len(b)-1:]) {
			a, b = a[:len(a)-1], b[:len(b)-1]
		}
		if max(len(a), len(b)) <= 2 {
			return "did you mean " + word + "?"
		}
	}
	return otherwise
}
