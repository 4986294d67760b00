package main

import (
	"context"
	"io"

	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/record"
)

func newRunCommand(clientGo func(klog.Logger)) *cobra.Command {
	var flags runFlags
	const short = "Watch the node and evict pods under pressure"
	cmd := newCommand("run --config FILE --node-name NAME", short, func(cmd *cobra.Command, _ []string) error {
		return runAgent(cmd.Context(), &flags, cmd.ErrOrStderr(), clientGo)
	})
	flags.add(cmd, true)
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "evict no pod: every request is a server-side dry run")
	cmd.Flags().StringVar(&flags.address, "http-bind-address", ":9464", "where /metrics, /livez and /readyz are served")
	addDebugAddress(cmd, &flags.debug, "where /debug/status is served, which names pods; 0: nowhere")
	cmd.Flags().StringVar(&flags.record, "record", "", "a directory for the record of what happens on the node; none is kept when left out")
	flags.recordMaxSize.Quantity = resource.MustParse("64Mi")
	cmd.Flags().Var(&flags.recordMaxSize, "record-max-size", "how much the record has at most; the oldest files go")
	addChoice(cmd, &flags.logLevel, "log-level", "", "info", "debug", "warn", "error")
	addChoice(cmd, &flags.logFormat, "log-format", "", "json", "console")
	return cmd
}

// runAgent reports faults before anything starts, then runs until the end.
func runAgent(ctx context.Context, flags *runFlags, log io.Writer, clientGo func(klog.Logger)) error {
	logger := record.NewQueuedLogger(flags.logLevel, flags.logFormat, log)
	defer func() { _ = logger.Sync() }() // what is queued
	clientGo(zapr.NewLogger(logger.Named("client-go")))
	c, refused, err := flags.begin()
	if err != nil {
		return err
	}
	d, err := build(ctx, flags, c, logger)
	if err != nil {
		return err
	}
	if refused != nil {
		d.idle.Store(&refused)
	}
	return d.run(ctx)
}
