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
			d.keepLast(c)
			checks.Go(func() { d.checkEdit(ctx, c) }) // the next edit does not wait for the API server
		}
		return err
	}
	inForce := d.inForce.Load()
	if d.refused.Load().atStart() != "" {
		inForce = nil // the next valid file is always a change
	}
	return config.Watch(ctx, d.flags.config, inForce, apply, d.noteRefused)
}

// putInForce passes a new configuration to the loop, with its own sampler: its thresholds
// may use signals that were not read before.
func (d *daemon) putInForce(ctx context.Context, c *config.EvictdConfiguration) error {
	sampler, err := d.host.openSampler(c, 0)
	if err != nil {
		return err
	}
	policy := d.policyOf(c, sampler)
	d.pods.KeepLabels(c.LabelKeys())
	if !d.agent.Reload(ctx, policy, sampler) {
		return errors.Join(ctx.Err(), sampler.Close())
	}
	d.inForce.Store(c)
	d.refused.Store(nil)
	d.recorder.InForce(policy.Thresholds, true)
	if err := d.host.sampler.Swap(sampler).Close(); err != nil {
		d.logger.Warn("closing what was read", zap.Error(err)) // the configuration is in effect all the same
	}
	return nil
}

// policyOf returns the policy of a configuration on this node, and reports where its thresholds stand to the
// kubelet's.
func (d *daemon) policyOf(c *config.EvictdConfiguration, sampler *pressure.Node) agent.Policy {
	policy := policyOf(c)
	policy.Acting = func() acting.State { return d.actingBy(c) }
	d.checkKubeletThresholds(c, &policy, sampler)
	return policy
}
