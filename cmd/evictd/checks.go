package main

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

const (
	// checksTimeout bounds all requests of the checks together.
	checksTimeout = time.Minute
	// policiesSettle gives the API servers time to apply policies that were created together with evictd: a
	// client that applies them last, as Helm does, has evictd's pods running before. Up to as much again
	// spreads the agents of many nodes.
	policiesSettle = 10 * time.Second
)

// ownNamespace is where evictd runs, which has the ConfigMap that stops it; outside of a pod it is that of the
// shipped manifest.
func ownNamespace() string { return cmp.Or(os.Getenv("POD_NAMESPACE"), "evictd") }

// inputs returns what the checks of a running evictd look at, as `evictd run` with these flags and that
// configuration would. A thing that cannot be read keeps nothing else from being read.
func (f *runFlags) inputs(c *config.EvictdConfiguration, h *host) *checks.Inputs {
	thresholds := c.Thresholds()
	in := &checks.Inputs{
		NodeName: f.nodeName, Namespace: ownNamespace(), HostRoot: f.hostRoot, StateDir: f.stateDir,
		File: f.config, Configuration: c, KubeletNamed: f.kubeletConfig != "",
		Signals: signalsOf(append(thresholds, pressure.Threshold{Signal: pressure.MemoryAvailable})),
		Sample:  pressure.Sample{Time: time.Now()}, Directories: map[pressure.Signal]string{},
	}
	for _, signal := range append(in.Signals, pressure.AllocatableMemoryAvailable) { // which the kubelet has by itself
		sampler, err := h.openSampler(c, 10*time.Second, signal) // alone, and it holds up no loop
		if err != nil {
			in.Sample.Observations[signal].Err = err
			continue
		}
		sample := sampler.Sample(in.Sample.Time)
		in.Sample.Observations[signal], in.Directories[signal] = sample.Of(signal), sampler.Directory(signal)
		_ = sampler.Close() // only files that were read
	}
	if in.Kubelet, in.NoKubelet = f.readKubelet(); in.NoKubelet == nil && len(thresholds) > 0 {
		in.Compared = kubeletconfig.Compare(thresholds, in.Kubelet, &in.Sample)
	}
	made, err := newClients(f, " (checks)") // over the daemon's connection, and the audit log tells them apart
	in.Disk = newDisk(made, f, func() *config.EvictdConfiguration { return c }).try
	if in.API.Err = err; err == nil {
		in.API = checks.API{Send: made.Evicting.Send, URL: made.Config.Host}
	}
	return in
}

// checkAtStart makes the checks once: those of the node now, and those of the API server some time after
// the Node was read.
func (d *daemon) checkAtStart(ctx context.Context) error {
	d.check(ctx, checks.Node)
	if err := d.checkNode(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(policiesSettle + rand.N(policiesSettle)): //nolint:gosec // spread, no secret
	}
	d.check(ctx, checks.Server)
	return nil
}

// checkNode makes sure, once, that the node exists. It waits for an API
// server that is not available yet, or for the end of the context, which is its error then: evictd may start before
// it, and evicts no pod until it has received the node's pods.
func (d *daemon) checkNode(ctx context.Context) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}
	return backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		node, err := getNode(ctx, d.clients, d.flags.nodeName)
		switch {
		case err == nil:
			d.taints.Found(node)
		case evict.IsNotFound(err):
			return false, err
		case ctx.Err() == nil:
			d.logger.Warn("the node cannot be read; trying again", zap.Error(err))
		}
		return err == nil, nil
	})
}

// check makes some checks of the configuration in force, and logs what is not as it should be.
func (d *daemon) check(ctx context.Context, parts checks.Part) {
	limited, cancel := context.WithTimeout(ctx, checksTimeout)
	defer cancel()
	c := d.inForce.Load()
	in := d.flags.inputs(c, d.host)
	in.Refused = d.idles()     // the configuration in force is none of the file's then
	if c == d.inForce.Load() { // else the check after the edit has its own
		d.recorder.KubeletThresholds(in.Compared)
	}
	results := checks.Run(limited, in, parts)
	if ctx.Err() != nil {
		return
	}
	for i := range results {
		r := &results[i]
		if r.State != checks.OK {
			d.recorder.Check(r.Name, string(r.State), r.Found, r.Follows, r.Do)
		}
	}
	if confined, known := checks.Confined(results); known {
		d.recorder.Confined(confined)
	}
}
