package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/strictyaml"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check configurations, or print the defaults", Args: cobra.NoArgs, RunE: group}
	validate := newCommand("validate FILE...", "Check configurations and manifests, - for stdin: exit 0, or 1 with one fault a line", func(cmd *cobra.Command, files []string) (err error) {
		for _, file := range files {
			err = errors.Join(err, validateConfig(cmd, file))
		}
		return err
	})
	validate.Args = cobra.MinimumNArgs(1)
	cmd.AddCommand(validate, newCommand("defaults", "Print the full default configuration as YAML", func(cmd *cobra.Command, _ []string) error {
		return writeYAML(cmd.OutOrStdout(), config.Default())
	}))
	return cmd
}

// validateConfig prints what is wrong with a file, or that it is valid.
func validateConfig(cmd *cobra.Command, file string) (err error) {
	var loaded *config.EvictdConfiguration
	if file != standardStream {
		loaded, err = config.Load(file)
	} else if text, unread := io.ReadAll(io.LimitReader(cmd.InOrStdin(), strictyaml.MaxBytes+1)); unread != nil {
		err = unread
	} else {
		loaded, err = config.ParseFile(file, text)
	}
	if err != nil {
		return reportFaults(cmd, file, err)
	}
	for _, warning := range loaded.Warnings(nil) {
		cmd.PrintErrln(file+": warning:", warning)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", file)
	return err
}

// reportFaults prints what is wrong with a file. Each line is one fault and nothing else is printed, so that a script can
// count them and an editor can jump to the line.
func reportFaults(cmd *cobra.Command, file string, err error) error {
	if invalid, refused := errors.AsType[utilerrors.Aggregate](err); refused {
		for _, fault := range invalid.Errors() {
			cmd.PrintErrln(fault)
		}
	} else {
		cmd.PrintErrln(file+":", err)
	}
	return errReported
}
