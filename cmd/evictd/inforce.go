package main

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
)

// followConfiguration applies every valid edit of the file, and keeps the previous
// configuration where an edit is invalid.
func (d *daemon) followConfiguration(ctx context.Context) error {
	var checks sync.WaitGroup
	defer checks.Wait()
	apply := func(c *config.EvictdConfiguration) error {
		err := d.putInForce(ctx, c)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the program ends: neither in force nor refused
		}
		if err == nil {
			d.refused.set(nil)
			d.keepLast(c)
			checks.Go(func() { d.checkEdit(ctx, c) }) // the next edit does not wait for the API server
		}
		return err
	}
	inForce := d.inForce.Load()
	if d.refused.atStart() != "" {
		inForce = nil // the next valid file is always a change
	}
	return config.Watch(ctx, d.flags.config, inForce, apply, d.noteRefused)
}

// putInForce passes a new configuration to the loop, with its own sampler: its thresholds
// may use signals that were not read before.
func (d *daemon) putInForce(ctx context.Context, c *config.EvictdConfiguration) error {
	policy, err := d.policyOf(c)
	if err != nil {
		return err
	}
	sampler, err := d.host.openSampler(c, signalsOf(policy.Thresholds), 0)
	if err != nil {
		return err
	}
	d.checkKubeletThresholds(c, &policy, sampler)
	d.pods.KeepLabels(c.LabelKeys())
	if !d.agent.Reload(ctx, policy, sampler) {
		return errors.Join(ctx.Err(), sampler.Close())
	}
	d.inForce.Store(c)
	d.recorder.InForce(policy.Thresholds, true)
	if err := d.host.replace(sampler); err != nil {
		d.logger.Warn("closing what was read", zap.Error(err)) // the configuration is in effect all the same
	}
	return nil
}

// policyOf returns the policy of a configuration on this node.
func (d *daemon) policyOf(c *config.EvictdConfiguration) (agent.Policy, error) {
	policy, err := policyOf(c)
	policy.Acting = func() acting.State { return d.actingBy(c) }
	return policy, err
}

// warningsOn returns the settings that are valid but probably mistakes on this node, given a sample
// of it.
func warningsOn(c *config.EvictdConfiguration, seen *pressure.Sample) []string {
	capacity := func(signal pressure.Signal) int64 {
		if of := seen.Of(signal); of.State == pressure.Known {
			return of.Capacity
		}
		return 0
	}
	return c.Warnings(capacity)
}
