package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/evictd/evictd/internal/config"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check a configuration file, or print the defaults", Args: cobra.NoArgs, RunE: group}
	validate := newCommand("validate FILE", "Check a configuration file: exit 0, or 1 with one fault a line", validateConfig)
	validate.Args = cobra.ExactArgs(1)
	cmd.AddCommand(validate, newCommand("defaults", "Print the full default configuration as YAML", func(cmd *cobra.Command, _ []string) error {
		return writeYAML(cmd.OutOrStdout(), config.Default())
	}))
	return cmd
}

func validateConfig(cmd *cobra.Command, args []string) error {
	loaded, err := config.Load(args[0])
	if invalid, found := errors.AsType[utilerrors.Aggregate](err); found {
		// Each line is one fault and nothing else is printed, so that a script can count them and an editor
		// can jump to the field.
		for _, fault := range invalid.Errors() {
			cmd.PrintErrln(fault)
		}
		return errReported
	}
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	for _, warning := range loaded.Warnings(nil) {
		cmd.PrintErrln("warning:", warning)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", args[0])
	return err
}
