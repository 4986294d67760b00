package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// addChoice adds a flag that takes one of some words, and has the first of them by default.
func addChoice(cmd *cobra.Command, chosen *string, name, short string, words ...string) {
	*chosen = words[0]
	all := strings.Join(words, ", ")
	cmd.Flags().FuncP(name, short, "one of "+all+"; the first when left out", func(word string) error {
		if !slices.Contains(words, word) {
			return errors.New("write one of " + all)
		}
		*chosen = word
		return nil
	})
}

// writeJSON writes a value as indented JSON.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeYAML writes a value as YAML.
func writeYAML(w io.Writer, value any) error {
	text, err := yaml.Marshal(value)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
