package main

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
)

const (
	// checksTimeout bounds all requests of the checks together, checkTimeout each of them.
	checksTimeout = time.Minute
	checkTimeout  = 10 * time.Second
	// policiesSettle gives the API servers time to apply policies that were created together with evictd: a
	// client that applies them last, as Helm does, has evictd's pods running before. Up to as much again
	// spreads the agents of many nodes.
	policiesSettle = 10 * time.Second
)

// inputs returns what the checks look at, as `evictd run` with these flags and that configuration would,
// and a sample of the node. A thing that cannot be read keeps nothing else from being read.
func (f *runFlags) inputs(c *config.EvictdConfiguration, h *host) (*checks.Inputs, *pressure.Sample) {
	sample := &pressure.Sample{Time: time.Now()}
	in := &checks.Inputs{
		NodeName: f.nodeName, Now: time.Now, Namespace: cmp.Or(self().Namespace, metav1.NamespaceDefault), StopNamespace: stopNamespace(),
		HostRoot: f.hostRoot, StateDir: f.stateDir, File: f.config, Configuration: c,
		PodFiles: func() error {
			opened, err := openFiles(f.hostRoot, c)
			if err == nil {
				err = opened.Close()
			}
			return err
		},
		Memory: func() pressure.Observation { return sample.Of(pressure.MemoryAvailable) },
	}
	thresholds, _ := c.Thresholds() // it was validated
	for _, signal := range signalsOf(append(thresholds, pressure.Threshold{Signal: pressure.MemoryAvailable})) {
		reading := checks.Reading{Signal: signal}
		reading.Observation, reading.Directory = h.observe(c, signal, sample.Time)
		sample.Observations[signal] = reading.Observation
		in.Readings = append(in.Readings, reading)
	}
	in.Warnings = c.Warnings(func(signal pressure.Signal) int64 { return sample.Observations[signal].Capacity })
	in.API.Err = f.connectChecks(in, h)
	return in, sample
}

// connectChecks gives the checks their clients. These are not the daemon's, which would count the policies'
// denials as failed requests; they use the same connection.
func (f *runFlags) connectChecks(in *checks.Inputs, h *host) error {
	made, err := newClients(f, " (checks)", nil)
	if err != nil {
		return err
	}
	credentials := rest.CopyConfig(made.config)
	credentials.Timeout = checkTimeout
	in.API.Explain = made.explain
	if in.API.Client, err = rest.HTTPClientFor(credentials); err != nil {
		return err
	}
	in.API.URL, _, err = rest.DefaultServerUrlFor(credentials)
	c := in.Configuration
	in.Summary = func(ctx context.Context) (unseen bool, err error) {
		measurer := disk{clients: made, flags: f, dedicatedImageFS: h.dedicatedImageFS}
		uses, err := measurer.bySummary(ctx, c, nil)
		own, _ := h.dedicatedImageFS(c) // without it there are no uses
		for uid := range uses {
			unseen = unseen || uses[uid].SplitLayers && !own
		}
		return unseen, err
	}
	return err
}

// checkAtStart makes the checks once: those of the node now, and those of the API server some time after
// the Node was read.
func (d *daemon) checkAtStart(ctx context.Context) error {
	in, _ := d.flags.inputs(d.inForce.Load(), d.host)
	d.reportChecks(checks.Run(ctx, in, checks.Node))
	if err := d.checkNode(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(policiesSettle + rand.N(policiesSettle)): //nolint:gosec // spread, no secret
	}
	limited, cancel := context.WithTimeout(ctx, checksTimeout)
	defer cancel()
	in, _ = d.flags.inputs(d.inForce.Load(), d.host)
	results := checks.Run(limited, in, checks.Server)
	if ctx.Err() != nil {
		return nil
	}
	if results[0].State != checks.OK {
		results = results[:1] // nothing else was asked
	}
	d.reportChecks(results)
	if confined, known := checks.Confined(results); known {
		d.recorder.Confined(confined)
	}
	return nil
}

// checkEdit makes the checks that depend on the configuration, after each change of it.
func (d *daemon) checkEdit(ctx context.Context, c *config.EvictdConfiguration) {
	limited, cancel := context.WithTimeout(ctx, checksTimeout)
	defer cancel()
	in, _ := d.flags.inputs(c, d.host)
	results := checks.Run(limited, in, checks.Edit)
	if ctx.Err() == nil {
		d.reportChecks(results)
	}
}

// reportChecks logs what is not as it should be.
func (d *daemon) reportChecks(results []checks.Result) {
	for i := range results {
		if r := &results[i]; r.State != checks.OK {
			d.recorder.Check(r.Name, string(r.State), r.Found, r.Follows, r.Do)
		}
	}
}
