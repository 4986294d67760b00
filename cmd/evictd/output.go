package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// choice is the value of a flag that takes one of some words.
type choice struct {
	chosen *string
	words  []string
}

// Set takes a word.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		last := len(c.words) - 1
		return errors.New("write " + strings.Join(c.words[:last], ", ") + " or " + c.words[last])
	}
	*c.chosen = word
	return nil
}

// String returns the word that was chosen.
func (c *choice) String() string { return *c.chosen }

// Type is what the help says that the flag takes.
func (*choice) Type() string { return "string" }

// addChoice adds a flag that takes one of some words, which a shell completes. By default it has that of chosen.
func addChoice(cmd *cobra.Command, chosen *string, name, short, usage string, words ...string) {
	cmd.Flags().VarP(&choice{chosen, words}, name, short, usage)
	complete(cmd, name, words...)
}

// complete has a shell complete a flag with words, and never with files.
func complete(cmd *cobra.Command, flag string, words ...string) {
	// A flag that is not there fails TestCompletion.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// writeJSON writes a value as indented JSON.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
