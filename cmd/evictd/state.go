package main

import (
	"errors"
	"os"

	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/state"
)

// remember gives the agent the state that the previous container wrote to the state
// directory, and a store that writes there. Without a directory, or a boot ID to identify
// it, there is neither.
func (d *daemon) remember(options *agent.Options) {
	dir := d.flags.stateDir
	if dir == "" {
		return // a check says what follows
	}
	bootID, err := state.BootID(d.flags.hostRoot)
	if err != nil {
		d.logger.Warn("starting without a state, and none is written", zap.Error(err))
		return
	}
	options.Memory = state.NewStore(dir, bootID, func(err error) { d.recorder.Failed(record.FailedState, err) })
	options.Remembered = d.loadState(dir, bootID)
}

// loadState returns the state of the previous container; nil where there is none, and the
// start is then a careful one.
func (d *daemon) loadState(dir, bootID string) *agent.State {
	var kept agent.State
	err := state.Load(dir, bootID, &kept)
	switch {
	case err == nil:
		d.logger.Info("going on with the state of the container before",
			zap.Int("incidents", len(kept.Incidents)), zap.Int("in_flight", len(kept.InFlight.Victims)))
		return &kept
	case errors.Is(err, os.ErrNotExist):
		d.logger.Info("no state of a container before: the start is a careful one", zap.String("state_dir", dir))
	default:
		d.logger.Warn("the state of the container before is not used: the start is a careful one", zap.Error(err))
	}
	return nil
}
