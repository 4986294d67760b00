package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/evictd/evictd/pkg/pressure"
)

// openWakers makes the kernel wake the loop when tasks wait for memory. It records what the
// kernel rejects; the loop then relies on pacing.
func (d *daemon) openWakers() {
	d.wakers = d.host.openWakers()
	for _, state := range d.wakers.States() {
		d.recorder.Wakeups(state)
	}
}

// openWakers opens the kernel's wake-ups that can be opened.
func (h *host) openWakers() *pressure.Wakers {
	return pressure.OpenWakers(h.flags.hostRoot, h.kubepods)
}

// followWakers lets the kernel wake the loop until the context ends. Its faults do not end
// evictd.
func (d *daemon) followWakers(ctx context.Context) error {
	if err := d.wakers.Run(ctx, d.recorder); err != nil {
		d.logger.Warn("closing the wake-ups", zap.Error(err))
	}
	return nil
}
