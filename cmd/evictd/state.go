package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/state"
)

// nodeTimeout is how long the start waits for the node's UID, where there is a state file to
// compare it with. An API server that is not available must not delay the monitoring of the
// node.
const nodeTimeout = time.Second

// remember gives the agent the state that the previous container wrote to the state
// directory, and a store that writes there. Without a directory, or a boot ID to identify
// it, there is neither.
func (d *daemon) remember(ctx context.Context, options *agent.Options) {
	dir := d.flags.stateDir
	if dir == "" {
		return // a check says what follows
	}
	bootID, err := state.BootID(d.flags.hostRoot)
	if err != nil {
		d.logger.Warn("starting without a state, and none is written", zap.Error(err))
		return
	}
	own := state.Identity{BootID: bootID, NodeUID: d.nodeUID(ctx, dir)}
	failed := func(what state.Failure, err error) { d.recorder.Failed(string(what), err) }
	d.state = state.NewStore(state.Options{Dir: dir, Identity: own, Now: time.Now, OnFailure: failed})
	options.Memory = d.state
	options.Remembered = d.loadState(dir, own)
}

// nodeUID returns the UID of the node; "" where there is no file to compare it with, or the
// API server does not return it in time.
func (d *daemon) nodeUID(ctx context.Context, dir string) string {
	if _, err := os.Stat(filepath.Join(dir, state.FileName)); err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	node, err := d.clients.getNode(ctx, d.flags.nodeName)
	if err != nil {
		return "" // the check of the node that follows reports why
	}
	return string(node.UID)
}

// loadState returns the state of the previous container; nil where there is none, and the
// start is then a careful one.
func (d *daemon) loadState(dir string, own state.Identity) *agent.State {
	var kept agent.State
	err := state.Load(dir, own, time.Now(), &kept)
	switch {
	case err == nil:
		d.logger.Info("going on with the state of the container before",
			zap.Int("incidents", len(kept.Incidents)), zap.Int("in_flight", kept.InFlight.Count(decide.Terminating)),
			zap.Bool("in_doubt", kept.InFlight.Count(decide.Requested) > 0), zap.Int("counted", len(kept.Cooldown.Accepted)),
			zap.Int("refused", kept.Cooldown.Refused()))
		return &kept
	case errors.Is(err, os.ErrNotExist):
		d.logger.Info("no state of a container before: the start is a careful one", zap.String("state_dir", dir))
	default:
		d.logger.Warn("the state of the container before is not used: the start is a careful one", zap.Error(err))
	}
	return nil
}

// foundNode passes the node's UID to the store, once it is known.
func (d *daemon) foundNode(uid string) {
	if d.state != nil {
		d.state.SetNodeUID(uid)
	}
}
