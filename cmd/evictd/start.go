package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/wording"
)

// lastConfigFile is the file in --state-dir that holds the last configuration that was
// applied.
const lastConfigFile = "config.yaml"

// begin returns the configuration to start with: the file's; where that is invalid, which is the
// refusal, the last valid one, in dry run; and without one the default one without a threshold. A process that
// ended because of an invalid edit would restart in a loop, on all nodes, without probes and
// metrics. A file that cannot be read is an error: a fault of the flags or mounts.
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

// saveLast saves a configuration for a start with an invalid file.
func (f *runFlags) saveLast(c *config.EvictdConfiguration) error {
	if f.stateDir == "" {
		return nil
	}
	text, err := config.Explain(c)
	if err != nil {
		return err
	}
	path := filepath.Join(f.stateDir, lastConfigFile)
	fresh := path + ".new" // a fixed name, so that the remains of a killed process are overwritten
	if err = os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("writing the configuration in force: %w", err)
	}
	if err = os.Rename(fresh, path); err != nil {
		return fmt.Errorf("replacing the configuration in force: %w", err)
	}
	return nil
}

// keepLast is saveLast; a failure is only logged.
func (d *daemon) keepLast(c *config.EvictdConfiguration) {
	if err := d.flags.saveLast(c); err != nil {
		d.logger.Warn("a start with a refused file will not find this configuration", zap.Error(err))
	}
}

// noteRefused reports an invalid configuration file.
func (d *daemon) noteRefused(err error) {
	instead := d.refused.Load().atStart()
	d.refused.Store(&refusal{wording.OneLine(err.Error()), instead})
	d.recorder.Refused(err, instead)
}
