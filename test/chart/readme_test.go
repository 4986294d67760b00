package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const readme = chartDir + "/README.md"

// The README of the chart has each value with its default and its comment in values.yaml. It is written by
// go test -run TestReadmeHasEachValue -update.
func TestReadmeHasEachValue(t *testing.T) {
	t.Parallel()
	const begin, end = "| value | default | |\n|---|---|---|\n", "\n<!-- The end of the values. -->"
	page := read(t, readme)
	before, rest, found := strings.Cut(page, begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no table of the values", readme)
	}
	want := before + begin + strings.Join(table(t), "\n") + end + after
	if *update {
		must(t, os.WriteFile(readme, []byte(want), 0o600))
		return
	}
	if page != want {
		t.Errorf("%s is not made from values.yaml: run make generate", readme)
	}
}

// table returns a row for each value, in the order of values.yaml.
func table(t *testing.T) []string {
	t.Helper()
	document, err := yaml.Parse(read(t, chartDir+"/values.yaml"))
	must(t, err)
	return tableOf(t, "", "", document.YNode())
}

// tableOf returns the rows of a map, whose own comment belongs to its first value.
func tableOf(t *testing.T, path, comment string, of *yaml.Node) []string {
	t.Helper()
	var rows []string
	for i := 0; i < len(of.Content); i += 2 {
		key, value := of.Content[i], of.Content[i+1]
		full := strings.TrimPrefix(path+"."+key.Value, ".")
		about := strings.TrimSpace(comment + " " + sentence(key.HeadComment))
		comment = ""
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && !slices.Contains(kubernetesOwn(), full) {
			rows = append(rows, tableOf(t, full, about, value)...)
			continue
		}
		if about == "" {
			t.Errorf("value %s has no comment in values.yaml", full)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", full, standard(t, value), strings.ReplaceAll(about, "|", "\\|")))
	}
	return rows
}

// sentence returns the first paragraph of a comment, in one line.
func sentence(comment string) string {
	var lines []string
	for line := range strings.SplitSeq(comment, "\n") {
		if text := strings.TrimSpace(strings.TrimPrefix(line, "#")); text != "" {
			lines = append(lines, text)
		} else if strings.HasPrefix(line, "#") {
			break // the rest is an example
		} else {
			lines = nil // a comment of the file, or of what was before
		}
	}
	return strings.Join(lines, " ")
}

// standard returns the default of a value, as JSON.
func standard(t *testing.T, value *yaml.Node) string {
	t.Helper()
	var decoded any
	must(t, value.Decode(&decoded))
	text, err := json.Marshal(decoded)
	must(t, err)
	return "`" + string(text) + "`"
}
