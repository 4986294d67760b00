package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/httpd"
	"github.com/evictd/evictd/internal/status"
)

// lastConfigFile is the file in --state-dir that holds the last configuration that was
// applied.
const lastConfigFile = "config.yaml"

// beginning is the configuration that evictd starts with.
type beginning struct {
	// configuration is the one to apply; nil where the program ended before there was one.
	configuration *config.EvictdConfiguration
	// refused is why the last valid configuration replaces the file's; nil when it is the
	// file's.
	refused error
}

// begin returns the configuration to start with: the file's; where that is invalid, the last
// valid one, in dry run; and without one that of the file once it is valid. A process that
// ended because of an invalid edit would restart in a loop, on all nodes, without probes and
// metrics.
func (f *runFlags) begin(ctx context.Context, logger *zap.Logger) (beginning, error) {
	loaded, err := f.load()
	if !isRefused(err) {
		return beginning{configuration: loaded}, err
	}
	last, why := f.loadLast()
	if why == nil {
		last.DryRun = true
		return beginning{configuration: last, refused: err}, nil
	}
	logger.Warn("no last valid configuration can be used", zap.Error(why))
	loaded, err = idle(ctx, f, logger, err)
	return beginning{configuration: loaded}, err
}

// isRefused reports whether a file was read but its content is not a valid configuration. A
// file that cannot be read is a fault of the flags or mounts.
func isRefused(err error) bool {
	_, unread := errors.AsType[*fs.PathError](err)
	return err != nil && !unread
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

// idle serves the probes and metrics until the file is valid, and returns its configuration
// then; nil where the context ends first.
func idle(ctx context.Context, flags *runFlags, logger *zap.Logger, refused error) (*config.EvictdConfiguration, error) {
	d, registry := &daemon{flags: flags, logger: logger}, prometheus.NewRegistry()
	d.refused.begin(refused, insteadIdle)
	if err := d.openRecorder(registry); err != nil {
		return nil, err
	}
	d.recorder.Acting(acting.State{Reason: acting.Configured, Why: insteadIdle})
	d.server = httpd.New(registry, httpd.Options{
		Addr: flags.address, Live: func() error { return nil }, Ready: d.refused.ready, Note: d.refused.sentence,
		Decisions: d.recorder.Decisions(),
		Status: status.Handler(func(context.Context, *status.Query) (*status.Document, error) {
			return nil, d.refused.ready()
		}),
	})
	if err := d.listen(ctx); err != nil {
		return nil, err
	}
	var valid *config.EvictdConfiguration
	group, idling := errgroup.WithContext(ctx)
	idling, end := context.WithCancel(idling)
	defer end()
	group.Go(func() error { return d.server.Run(idling) })
	group.Go(func() error {
		defer end()
		apply := func(c *config.EvictdConfiguration) error {
			valid = c
			end()
			return nil
		}
		return config.Watch(idling, flags.config, nil, apply, d.noteRefused)
	})
	err := group.Wait()
	d.flushEvents(ctx)
	return valid, err
}

// noteRefused reports an invalid configuration file.
func (d *daemon) noteRefused(err error) {
	d.refused.set(err)
	d.recorder.Refused(err, d.refused.atStart())
}
