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
// it, there is neither. Without a state the start is a careful one.
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
	var kept agent.State
	switch err := state.Load(dir, bootID, &kept); {
	case err == nil:
		options.Remembered = &kept
		d.logger.Info("going on with the state of the container before",
			zap.Int("incidents", len(kept.Incidents)), zap.Int("in_flight", len(kept.InFlight.Victims)))
	case errors.Is(err, os.ErrNotExist):
		d.logger.Info("no state of a container before: the start is a careful one", zap.String("state_dir", dir))
	default:
		d.logger.Warn("the state of the container before is not used: the start is a careful one", zap.Error(err))
	}
}
