package main

import (
	"context"
	"fmt"
	"io"

	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/record"
)

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
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "evict no pod: every request is a server-side dry run")
	cmd.Flags().StringVar(&flags.address, "http-bind-address", defaultAddress, "where /metrics, /livez, /readyz, /debug/decisions and /debug/status are served")
	cmd.Flags().StringVar(&flags.logLevel, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&flags.logFormat, "log-format", "json", "json or console")
	return cmd
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
	c, refused, err := flags.begin(logger)
	if err != nil {
		return err
	}
	d, err := build(ctx, flags, c, logger)
	if err != nil {
		return err
	}
	defer d.close()
	if d.refused.Store(refused); refused == nil {
		d.keepLast(c)
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
