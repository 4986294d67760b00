package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/record"
)

func newRunCommand(clientGo func(klog.Logger)) *cobra.Command {
	flags := runFlags{logLevel: "info", logFormat: "json"}
	cmd := newCommand("run --config FILE --node-name NAME", "Watch the node and evict pods under pressure", func(cmd *cobra.Command) error {
		return runAgent(cmd.Context(), &flags, cmd.ErrOrStderr(), clientGo)
	})
	flags.add(cmd)
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "evict no pod: every request is a server-side dry run")
	cmd.Flags().StringVar(&flags.address, "http-bind-address", defaultAddress, "where /metrics, /livez, /readyz, /debug/decisions and /debug/status are served")
	addChoice(cmd, &flags.logLevel, "log-level", "", "debug, info, warn or error", "debug", "info", "warn", "error")
	addChoice(cmd, &flags.logFormat, "log-format", "", "json or console", "json", "console")
	return cmd
}

// runAgent reports faults before anything starts, then runs until the end.
func runAgent(ctx context.Context, flags *runFlags, log io.Writer, clientGo func(klog.Logger)) error {
	if err := flags.check(); err != nil {
		return err
	}
	logger := record.NewQueuedLogger(flags.logLevel, flags.logFormat, log)
	defer func() { _ = logger.Sync() }() // what is queued
	clientGo(zapr.NewLogger(logger.Named("client-go")))
	c, refused, err := flags.begin(logger)
	if err != nil {
		return err
	}
	d, err := build(flags, c, logger)
	if err != nil {
		return err
	}
	defer d.close()
	if d.refused.Store(refused); refused == nil {
		d.keepLast(c)
	}
	return d.run(ctx)
}

// flushTimeout is how long events may still be sent at shutdown.
const flushTimeout = 5 * time.Second

// run starts everything and ends when the context does or a part fails.
func (d *daemon) run(ctx context.Context) error {
	if err := d.server.Listen(ctx); err != nil {
		return fmt.Errorf("%w; name another address by --http-bind-address", err)
	}
	d.logger.Info("started",
		zap.String("version", buildVersion()),
		zap.String("revision", revision),
		zap.String("node", d.flags.nodeName),
		zap.String("kubepods", d.host.kubepods),
		zap.String("address", d.server.Addr()),
		zap.Bool("dry_run", d.inForce.Load().DryRun || d.flags.dryRun))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.pods.Run(ctx) })
	group.Go(func() error { return d.acting.Run(ctx) })
	group.Go(func() error { return d.agent.Run(ctx) })
	group.Go(func() error { return d.server.Run(ctx) })
	group.Go(func() error { return d.followConfiguration(ctx) })
	group.Go(func() error { return d.checkAtStart(ctx) })
	group.Go(func() error { return d.followWakers(ctx) })
	group.Go(func() error { return d.taints.Run(ctx) })
	err := group.Wait()
	d.flushEvents(ctx)
	if err != nil {
		d.logger.Error("stopped by a fault", zap.Error(err))
		return exitError{exitFault, nil} // it has been reported, once
	}
	d.logger.Info("stopped")
	return nil
}

// flushEvents sends the queued Events, within a time limit.
func (d *daemon) flushEvents(ctx context.Context) {
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if lost := d.events.Close(flush); lost != nil {
		d.logger.Warn("events were lost", zap.Error(lost))
	}
}

func (d *daemon) close() {
	if err := errors.Join(d.wakers.Close(), d.host.close()); err != nil {
		d.logger.Warn("closing what was read", zap.Error(err))
	}
}
