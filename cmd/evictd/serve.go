package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

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
	group.Go(func() error { return d.followKubeletMemory(ctx) })
	group.Go(func() error { return d.taints.Run(ctx) })
	err := group.Wait()
	d.flushEvents(ctx)
	if err != nil {
		d.logger.Error("stopped by a fault", zap.Error(err))
		return exitError{exitFault} // it has been reported, once
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
