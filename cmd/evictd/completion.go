package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/status"
)

// newCompletionCommand returns the command that prints a shell's completion script, which asks evictd
// itself what to complete.
func newCompletionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print the completion script of a shell",
		Example:   "  source <(evictd completion bash)",
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(shells, args[0]) {
				return nil
			}
			return usageError{fmt.Errorf("name one shell: bash, zsh or fish (see %s --help)", cmd.CommandPath())}
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return root.GenBashCompletionV2(out, true)
			}
		},
	}
}

// completeValues says what a shell completes beside commands and flags. Flags that are not listed are
// completed with files.
func completeValues(root *cobra.Command) {
	var signals []string
	for _, signal := range status.Rankable() {
		signals = append(signals, signal.String())
	}
	for _, one := range []struct {
		command, flag string
		values        []string // nil: there is nothing to complete
	}{
		{"rank", "signal", signals},
		{"rank", "output", []string{formatTable, formatWide, formatJSON, formatYAML}},
		{"rank", "why", nil},
		{"status", "output", []string{formatTable, formatJSON}},
		{"doctor", "output", []string{formatTable, formatJSON}},
		{"doctor", "node-name", nil},
		{"version", "output", []string{formatJSON}},
		{"run", "log-level", []string{"debug", "info", "warn", "error"}},
		{"run", "log-format", []string{"json", "console"}},
		{"run", "node-name", nil},
	} {
		if cmd, _, err := root.Find([]string{one.command}); err == nil {
			// A flag that is not there fails TestCompletion.
			_ = cmd.RegisterFlagCompletionFunc(one.flag, cobra.FixedCompletions(one.values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, cmd := range root.Commands() {
		if slices.Contains([]string{"run", "rank", "status", "doctor", "version"}, cmd.Name()) {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
}
