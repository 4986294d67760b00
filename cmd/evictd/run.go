package main

import (
	"context"
	"fmt"
	"io"

	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/record"
)

// runFlags are the flags of `evictd run`.
type runFlags struct {
	whereFlags
	dryRun        bool
	kubeletConfig string
	address       string
	stateDir      string
	logLevel      string
	logFormat     string
}

func newRunCommand(clientGo func(klog.Logger)) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run --config FILE --node-name NAME",
		Short: "Watch the node and evict pods under pressure",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAgent(cmd.Context(), &flags, cmd.ErrOrStderr(), clientGo)
		},
	}
	flags.add(cmd.Flags())
	flags.addFiles(cmd.Flags())
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "evict no pod: every request is a server-side dry run")
	cmd.Flags().StringVar(&flags.address, "http-bind-address", defaultAddress, "where /metrics, /livez, /readyz, /debug/decisions and /debug/status are served")
	cmd.Flags().StringVar(&flags.logLevel, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&flags.logFormat, "log-format", "json", "json or console")
	return cmd
}

// addFiles adds the flags for files beside the configuration.
func (f *runFlags) addFiles(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeletConfig, "kubelet-config", "", "the kubelet's configuration on the host, a file or a directory of drop-ins; looked for when left out")
	flags.StringVar(&f.stateDir, "state-dir", "", "a directory for what should outlive a restart of the container; nothing does when left out")
}

// runAgent reports faults before anything starts, then runs until the end.
func runAgent(ctx context.Context, flags *runFlags, log io.Writer, clientGo func(klog.Logger)) error {
	if err := flags.check(); err != nil {
		return err
	}
	logger, err := flags.newLogger(log)
	if err != nil {
		return err
	}
	defer func() { _ = logger.Sync() }() // what is queued
	clientGo(zapr.NewLogger(logger.Named("client-go")))
	begins, err := flags.begin(ctx, logger)
	if err != nil || begins.configuration == nil {
		return err
	}
	d, err := build(ctx, flags, begins.configuration, logger)
	if err != nil {
		return err
	}
	defer d.close()
	if begins.refused != nil {
		d.refused.begin(begins.refused, insteadLast)
	} else {
		d.keepLast(begins.configuration)
	}
	return d.run(ctx)
}

// newLogger returns the logger that the flags configure.
func (f *runFlags) newLogger(w io.Writer) (*zap.Logger, error) {
	logger, err := record.NewQueuedLogger(f.logLevel, f.logFormat, w)
	if err != nil {
		return nil, usageError{fmt.Errorf("--log-%w", err)}
	}
	return logger, nil
}
