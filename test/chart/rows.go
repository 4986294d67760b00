package chart

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

const rowsFile = "testdata/values.yaml"

// Row is one value of the chart: what it is set to, and all that this changes.
type Row struct {
	// Value is its path in values.yaml.
	Value string `json:"value"`
	// Given are the values that it needs to have an effect, Set is the value itself, in YAML.
	Given string `json:"given"`
	Set   string `json:"set"`
	// Changes are lines of [Objects.Changes].
	Changes []string `json:"changes"`
}

// Rows returns a row for each value of the chart.
func Rows(t *testing.T) []Row {
	t.Helper()
	text, err := os.ReadFile(rowsFile)
	must(t, err)
	var all []Row
	must(t, yaml.UnmarshalStrict(text, &all))
	return all
}
