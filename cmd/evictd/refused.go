package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"go.uber.org/zap"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/wording"
)

// lastConfigFile is the file in --state-dir that holds the last configuration that was
// applied.
const lastConfigFile = "config.yaml"

// begin returns the configuration to start with: the file's, or, in dry run where that is refused, the last valid
// one, and without one that of no threshold. A process that ended because of an invalid edit would restart in a
// loop, on all nodes, without probes and metrics. A file that cannot be read is an error: a fault of the flags or
// mounts.
func (f *runFlags) begin(logger *zap.Logger) (*config.EvictdConfiguration, *refusal, error) {
	c, err := f.load()
	if _, unread := errors.AsType[*fs.PathError](err); err == nil || unread {
		return c, nil, err
	}
	refused := &refusal{wording.OneLine(err.Error()), insteadLast}
	if c, err = f.loadLast(); err != nil {
		logger.Warn("no last valid configuration can be used", zap.Error(err))
		c, refused.instead = config.Default(), insteadIdle
		c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim = nil, nil, nil, nil
	}
	c.DryRun = true
	return c, refused, nil
}

// loadLast returns the last configuration that was applied.
func (f *runFlags) loadLast() (*config.EvictdConfiguration, error) {
	if f.stateDir == "" {
		return nil, errors.New("there is no --state-dir")
	}
	last, err := config.Load(filepath.Join(f.stateDir, lastConfigFile))
	if err != nil {
		return nil, fmt.Errorf("loading the last configuration: %w", err)
	}
	return last, nil
}

// keepLast saves a configuration for a start with an invalid file.
func (d *daemon) keepLast(c *config.EvictdConfiguration) {
	if d.flags.stateDir == "" {
		return
	}
	text, err := yaml.Marshal(c)
	if err == nil {
		err = state.Replace(filepath.Join(d.flags.stateDir, lastConfigFile), text)
	}
	if err != nil {
		d.logger.Warn("a start with a refused file will not find this configuration", zap.Error(err))
	}
}

// noteRefused reports an invalid configuration file.
func (d *daemon) noteRefused(err error) {
	instead := d.refused.Load().atStart()
	d.refused.Store(&refusal{wording.OneLine(err.Error()), instead})
	d.recorder.Refused(err, instead)
}

// What evictd does while the file that it was started with is invalid.
const (
	insteadLast = "the last valid one is in force, in dry run"
	insteadIdle = "no pod is evicted until the file is valid"
)

// refusal is the current fault of the configuration file; nil is none.
type refusal struct {
	fault string // on one line
	// instead says what evictd does where no file has been valid since the start; "" once one was valid.
	instead string
}

// atStart returns what evictd does instead of what the file says, where none has been valid
// since the start; otherwise "".
func (r *refusal) atStart() string {
	if r == nil {
		return ""
	}
	return r.instead
}

// ready returns why evictd is not ready: it does not follow any file. A rejected edit does
// not count, because the previous configuration is still in effect.
func (r *refusal) ready() error {
	if r.atStart() == "" {
		return nil
	}
	return fmt.Errorf("the configuration was refused at the start, and %s: %s", r.instead, r.fault)
}
