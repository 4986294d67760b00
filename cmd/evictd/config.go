package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/config"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, or print the defaults",
		Args:  cobra.ArbitraryArgs, // oneOf reports what is wrong with them
		RunE:  oneOf,
	}
	cmd.AddCommand(newConfigValidateCommand(), newConfigDefaultsCommand())
	return cmd
}

func newConfigValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file: exit 0, or 1 with one fault a line",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return usageError(fmt.Errorf("name one configuration file, not %d: %s FILE", len(args), cmd.CommandPath()))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := config.Load(args[0])
			if err == nil {
				return validated(cmd, args[0], loaded.Warnings(nil))
			}
			invalid, found := errors.AsType[*config.InvalidError](err)
			if !found {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			// Each line is one fault and nothing else is printed, so that a script can count
			// them and an editor can jump to the field.
			for _, line := range invalid.Lines() {
				if _, err := fmt.Fprintln(cmd.ErrOrStderr(), line); err != nil {
					return err
				}
			}
			return exitError{exitFault, nil}
		},
	}
}

// validated says that a file is valid, and which settings are probably mistakes.
func validated(cmd *cobra.Command, file string, warnings []string) error {
	for _, warning := range warnings {
		if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", file)
	return err
}

func newConfigDefaultsCommand() *cobra.Command {
	return newCommand("defaults", "Print the full default configuration as YAML", func(cmd *cobra.Command) error {
		written, err := yaml.Marshal(config.Default())
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(written)
		return err
	})
}
