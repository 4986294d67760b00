package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/evictd/evictd/pkg/pressure"
)

// openWakers makes the kernel wake the loop when tasks wait for memory. It records what the
// kernel rejects; the loop then relies on pacing.
func (d *daemon) openWakers() {
	d.wakers = pressure.OpenWakers(d.flags.hostRoot, d.host.kubepods)
	for _, state := range d.wakers.States() {
		d.recorder.Wakeups(state)
	}
}

// followWakers lets the kernel wake the loop until the context ends. Its faults do not end
// evictd.
func (d *daemon) followWakers(ctx context.Context) error {
	if err := d.wakers.Run(ctx, d.recorder); err != nil {
		d.logger.Warn("closing the wake-ups", zap.Error(err))
	}
	return nil
}
