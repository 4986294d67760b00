package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// begin returns the configuration to start with: the file's, or, where that is refused, one of no threshold, in dry
// run. A process that ended because of an invalid edit would restart in a loop, on all nodes, without probes and
// metrics. A file that cannot be read is an error: a fault of the flags or mounts.
func (f *runFlags) begin() (c *config.EvictdConfiguration, refused, err error) {
	c, refused = loadConfig(f.config)
	if _, unread := errors.AsType[*fs.PathError](refused); refused == nil || unread {
		return c, nil, refused
	}
	c = config.Default()
	c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim = nil, nil, nil, nil
	c.DryRun = true
	return c, refused, nil
}

// insteadIdle is what evictd does while the file is invalid that it was started with.
const insteadIdle = "no pod is evicted until the file is valid"

// idles returns why no file is followed; nil once one was valid.
func (d *daemon) idles() error {
	if why := d.idle.Load(); why != nil {
		return fmt.Errorf("the configuration was refused at the start, and %s: %s", insteadIdle, wording.OneLine((*why).Error()))
	}
	return nil
}

// followConfiguration applies every valid edit of the file, and keeps the previous
// configuration where an edit is invalid.
func (d *daemon) followConfiguration(ctx context.Context) error {
	var checking sync.WaitGroup
	defer checking.Wait()
	apply := func(c *config.EvictdConfiguration) error {
		err := d.putInForce(ctx, c)
		if err == nil {
			checking.Go(func() { d.check(ctx, checks.Edit) }) // the next edit does not wait for the API server
		}
		return err
	}
	inForce := d.inForce.Load()
	if d.idles() != nil {
		inForce = nil // the next valid file is always a change
	}
	return config.Watch(ctx, d.flags.config, inForce, apply, func(err error) {
		d.refused.Store(&err)
		instead := "the one before stays in force"
		if d.idles() != nil {
			instead = insteadIdle
			d.idle.Store(&err)
		}
		d.recorder.Refused(err, instead)
	})
}

// putInForce passes a new configuration to the loop, with its own sampler: its thresholds
// may use signals that were not read before.
func (d *daemon) putInForce(ctx context.Context, c *config.EvictdConfiguration) error {
	sampler, err := d.host.openSampler(c, 0)
	if err != nil {
		return err
	}
	policy := d.policyOf(c)
	d.pods.KeepLabels(c.LabelKeys())
	if !d.agent.Reload(ctx, policy, sampler.Sample) {
		return nil // the program ends: neither in force nor refused
	}
	d.inForce.Store(c)
	d.idle.Store(nil)
	d.refused.Store(nil)
	d.recorder.InForce(policy.Thresholds, true)
	_ = d.sampler.Close() // only files that were read
	d.sampler = sampler
	return nil
}

// policyOf returns the policy of a configuration, with what the kubelet does on this node by its own.
func (d *daemon) policyOf(c *config.EvictdConfiguration) agent.Policy {
	kubelet, unknown := d.flags.readKubelet()
	if unknown != nil {
		kubelet = kubeletconfig.Default() // of images; when it evicts is not known then
	}
	policy := policyFrom(c, kubelet)
	policy.Acting = func() acting.State { return d.acting.Of(c.DryRun, d.flags.dryRun) }
	if unknown == nil {
		policy.KubeletHard = hardOf(kubelet)
	}
	return policy
}

// policyFrom returns what configurations of evictd and of the kubelet say; whether it acts is not set.
func policyFrom(c *config.EvictdConfiguration, kubelet *kubeletconfig.Configuration) agent.Policy {
	return agent.Policy{
		Policy: decide.Policy{
			Thresholds:      c.Thresholds(),
			MemoryAvailable: c.MemoryAvailable,
			Rules:           c.Rules(),
			WithinRequests:  c.Protect.WithinRequests,
			SoftGrace:       int64(c.EvictionMaxPodGracePeriod),
			HardGrace:       int64(c.EvictionHardPodGracePeriod),
			OverdueGrace:    int64(c.EvictionOverdueGracePeriod),
			BestEffort:      c.DisruptionBudgets == config.BudgetsBestEffort,
			TaintNode:       c.TaintNode != config.TaintOff,
			TaintSoft:       c.TaintNode == config.TaintSoft,
		},
		Transition: c.EvictionPressureTransitionPeriod.Duration,
		Kubelet:    *kubelet,
		Pacing:     pressure.Pacing{Min: c.Sampling.MinInterval.Duration, Max: c.Sampling.MaxInterval.Duration},
		Limits:     c.Limits,
	}
}

// hardOf returns the kubelet's hard thresholds.
func hardOf(kubelet *kubeletconfig.Configuration) []pressure.Threshold {
	return slices.DeleteFunc(slices.Clone(kubelet.Thresholds), func(t pressure.Threshold) bool { return !t.Hard })
}
