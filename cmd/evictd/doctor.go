package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/doctor"
)

// doctorTimeout bounds all requests together.
const doctorTimeout = time.Minute

// doctorFlags are the flags of `evictd doctor`: those of `evictd run` that say where things are.
type doctorFlags struct {
	runFlags

	output string
}

func newDoctorCommand() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor --node-name NAME [--config FILE]",
		Short: "Check what evictd needs on its node and at the API server: exit 0, or 1 where something is missing",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.examine(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags.add(cmd.Flags())
	flags.addFiles(cmd.Flags())
	cmd.Flags().Lookup("config").Usage = "the configuration file; the defaults when left out"
	cmd.Flags().StringVarP(&flags.output, "output", "o", formatTable, "table or json")
	return cmd
}

// examine executes the command with its flags.
func (f *doctorFlags) examine(ctx context.Context, w io.Writer) error {
	if f.output != formatTable && f.output != formatJSON {
		return usageError{fmt.Errorf("--output %q: write table or json", f.output)}
	}
	if err := f.checkNodeName(); err != nil {
		return usageError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	findings := doctor.Examine(ctx, f.subject())
	if err := writeFindings(w, f.output, findings); err != nil {
		return err
	}
	if !doctor.Sound(findings) {
		return exitError{exitFault}
	}
	return nil
}

// subject is the node and the API server, as `evictd run` with these flags would see them.
func (f *doctorFlags) subject() *doctor.Subject {
	c, err := f.toExamine()
	s := &doctor.Subject{Configuration: doctor.Configuration{File: f.config, Err: err, DryRun: c.DryRun}}
	seen := f.seeHost(c)
	s.Host, s.Configuration.Thresholds, s.Configuration.Warnings = seen.host(), seen.thresholds, warningsOn(c, &seen.sample)
	s.API = f.seeAPI(c, seen)
	return s
}

// toExamine returns the configuration to check: the file's, or, where there is none or the error
// refuses it, the default one.
func (f *doctorFlags) toExamine() (*config.EvictdConfiguration, error) {
	if f.config == "" {
		return config.Default(), nil
	}
	loaded, err := f.load()
	if err != nil {
		return config.Default(), err
	}
	return loaded, nil
}
