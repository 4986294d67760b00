package config

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/wording"
)

// InvalidError says that a file could be read as YAML and that its content is not
// a valid configuration.
type InvalidError struct {
	// Faults holds every fault, at least one: first those of the text (unknown
	// fields, duplicate keys, wrong types), then those of the values, each in an
	// order that depends on the file alone.
	Faults field.ErrorList
}

// Error returns all faults on one line.
func (e *InvalidError) Error() string {
	return "invalid configuration: " + strings.Join(e.Lines(), "; ")
}

// Lines returns one line for each fault: the field's path, what is wrong, what to
// do.
func (e *InvalidError) Lines() []string {
	lines := make([]string, 0, len(e.Faults))
	for _, fault := range e.Faults {
		lines = append(lines, wording.OneLine(fault.Error()))
	}
	return lines
}

// invalid returns nil when there are no faults.
func invalid(faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	return &InvalidError{Faults: faults}
}
