package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/evictd/evictd/internal/confined"
	"github.com/evictd/evictd/internal/wording"
)

// policiesSettle gives the API servers time to apply policies that were created together with evictd: a
// client that applies them last, as Helm does, has evictd's pods running before. Up to as much again
// spreads the agents of many nodes.
const policiesSettle = 10 * time.Second

// reportConfinement reports once whether the API server's policies confine evictd to its node.
func (d *daemon) reportConfinement(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(policiesSettle + rand.N(policiesSettle)): //nolint:gosec // spread, no secret
	}
	if result := d.checkConfinement(ctx); ctx.Err() == nil {
		d.recorder.Confined(result)
	}
}

// checkConfinement tries the policies once. Its clients are not the daemon's, which would count the
// policies' denials as failed requests; they use the same connection.
func (d *daemon) checkConfinement(ctx context.Context) confined.Result {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	made, err := newClients(&d.flags.whereFlags, nil)
	if err != nil {
		return confined.Result{Detail: wording.OneLine(err.Error())}
	}
	p := &prober{clients: made, core: made.evicting.Core(), node: d.flags.nodeName}
	if err = p.confinable(ctx); err != nil {
		return confined.Result{Detail: wording.OneLine(err.Error())}
	}
	return confined.Check(ctx, p.policies())
}
