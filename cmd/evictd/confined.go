package main

import (
	"context"
	"math/rand/v2"

	"github.com/evictd/evictd/internal/confined"
	"github.com/evictd/evictd/internal/wording"
)

// followConfinement reports whether the API server's policies confine evictd to its node, until the
// context ends.
func (d *daemon) followConfinement(ctx context.Context) error {
	watcher := confined.Watcher{Check: d.checkConfinement, Report: d.recorder.Confined, Random: rand.Float64}
	watcher.Run(ctx)
	return nil
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
