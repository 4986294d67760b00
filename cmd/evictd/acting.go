package main

import (
	"cmp"
	"errors"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
)

// stopNamespace is where the ConfigMap is that stops evictd: its own namespace, and outside of a
// pod that of the shipped manifest.
func stopNamespace() string { return cmp.Or(self().Namespace, "evictd") }

// actingBy returns whether evictd acts, by a configuration and by what is known now. Only the loop
// asks, by the configuration that it has in force.
func (d *daemon) actingBy(c *config.EvictdConfiguration) acting.State {
	s := d.acting.Of(acting.Configuration{DryRun: c.DryRun, Flag: d.flags.dryRun})
	if !s.Reason.Unknown() {
		d.actingKnown.Store(true)
	}
	return s
}

// readyToAct returns an error until it is known for the first time whether evictd acts: a rollout to
// nodes on which it cannot know ends at the first of them. What is not known later is no matter of
// the process, as where the API server fails.
func (d *daemon) readyToAct() error {
	if d.actingKnown.Load() {
		return nil
	}
	return errors.New("it is not known yet whether evictd may act; its log says why if that lasts")
}
