// Package strictyaml reads YAML files that people write, such as evictd's configuration, and says what is wrong with them: a
// line for each fault, with the file, its line, the field's path and what to write. An unknown field, one that is there twice
// and a value in another form than its field's are faults.
package strictyaml

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

// Faults collects what is wrong with a file. The zero value collects the faults of what is in no file.
type Faults struct {
	all []fault

	form    *Form
	content []byte                  // of the document, from its line on
	file    string                  // its name; without one a fault names no line
	places  map[string]int          // the lines of the fields that the file has, by their paths, and of the whole document by ""
	above   int                     // the lines of the file above the text that has the document
	only    int                     // the one line of a document that is a text in quotes, else 0
	unfit   bool                    // a value is missing, because it fits its field in no form
	forms   map[string]*field.Error // by their paths, values that fit in another form: faults, unless they are not valid in that one
}

// fault is one line: what is wrong, behind the field's path if there is one.
type fault struct {
	line int
	text string
}

// Err returns nil, or an error with every fault where there are some, in the order of the lines: an Aggregate of
// k8s.io/apimachinery/pkg/util/errors behind what is wrong with the whole, such as "invalid configuration".
func (f *Faults) Err(whole string) error {
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
	return fmt.Errorf("%s: %w", whole, utilerrors.NewAggregate(errs))
}

// line returns the line of a field, or that of what it would be in where the file does not have it.
func (f *Faults) line(path string) int {
	for f.places[path] == 0 && path != "" {
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return cmp.Or(f.only, f.above+f.places[path])
}

// at adds a fault of no field.
func (f *Faults) at(line int, text string) {
	f.all = append(f.all, fault{cmp.Or(f.only, f.above+line), text})
}

// Add adds faults of fields. Durations have their units.
func (f *Faults) Add(all ...*field.Error) {
	for _, err := range all {
		if d, is := err.BadValue.(time.Duration); is {
			err.BadValue = d.String()
		}
		delete(f.forms, err.Field)
		f.all = append(f.all, fault{f.line(err.Field), err.Error()})
	}
}

// AddAt adds a fault of a field that the file does not have, at the line of another field.
func (f *Faults) AddAt(line *field.Path, err *field.Error) {
	f.Add(err)
	f.all[len(f.all)-1].line = f.line(line.String())
}

// Invalid adds a fault of a field's value.
func (f *Faults) Invalid(path *field.Path, value any, detail string) {
	f.Add(field.Invalid(path, value, detail))
}

// OneOf refuses a value that is none of those allowed.
func OneOf[T ~string](f *Faults, path *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		f.Add(field.NotSupported(path, value, allowed))
	}
}

// Between refuses a value below low or above high. Why is what follows the bounds, or "".
func Between[T cmp.Ordered](f *Faults, path *field.Path, value, low, high T, why string) {
	if value < low || value > high {
		f.Invalid(path, value, fmt.Sprintf("must be between %v and %v%s", low, high, why))
	}
}

// AtLeast refuses a value below low.
func AtLeast[T cmp.Ordered](f *Faults, path *field.Path, value, low T, why string) {
	if value < low {
		f.Invalid(path, value, fmt.Sprintf("must be at least %v%s", low, why))
	}
}

// Meant asks for the word from which a wrong one differs in its case or within two letters, or says something else where there is none.
func Meant(wrong string, words []string, otherwise string) string {
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
