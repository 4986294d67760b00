package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing must happen in the directory before the file is
	// read: an editor or the kubelet makes several changes for one edit.
	quiet = 100 * time.Millisecond
	// deferrals bounds how often new changes may put the reading off, or a directory
	// that never rests would never be read.
	deferrals = 10
	// absence is how long the file may be missing, or empty, before that is a fault:
	// editors remove or empty it before they write it anew.
	absence = 5 * time.Second
	// again is how often a configuration is tried again that could not be applied,
	// or a file that could not be read: the reason may pass without an edit.
	again = 10 * time.Second
)

// Watch follows the file at path until ctx is done and then returns nil. It calls
// apply with every new configuration, and refused with every one that does not
// validate, cannot be read or that apply returned an error for, once for each; the
// one before then stays in force. What did not fail by its content is tried again
// from time to time. Both are called from the goroutine that runs Watch.
//
// InForce is the configuration that the caller runs with. A file that means the
// same is not applied, unless the one before it was refused; a file that changed
// between [Load] and Watch is applied at once. Nil applies the file as it is found.
//
// The directory is watched, not the file: a ConfigMap volume never writes to the
// file but swaps a link beside it (..data), and an editor replaces it. A
// directory that is replaced as a whole, and a file mounted by subPath, cannot be
// followed. The error says that the directory cannot be watched, or no longer.
func Watch(
	ctx context.Context, path string, inForce *EvictdConfiguration,
	apply func(*EvictdConfiguration) error, refused func(error),
) error {
	f := &follower{path: path, apply: apply, refused: refused, quiet: quiet, absence: absence, again: again}
	if inForce != nil {
		meaning, err := Explain(inForce)
		if err != nil {
			return err
		}
		f.inForce = meaning
	}
	return f.run(ctx)
}

// follower is one run of [Watch].
type follower struct {
	path    string
	apply   func(*EvictdConfiguration) error
	refused func(error)
	quiet   time.Duration
	absence time.Duration
	again   time.Duration

	inForce []byte // the configuration in force as YAML; nil when unknown
	seen    []byte // the file's content when it was last read; nil when it was not
	failed  string // the fault last reported; empty once a file was good
	passing bool   // the last look failed for a reason that an edit need not mend
}

func (f *follower) run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching configuration: %w", err)
	}
	defer watcher.Close() //nolint:errcheck // nothing can be done, and nothing is lost
	if err := watcher.Add(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("watching configuration: %w", err)
	}
	return f.follow(ctx, watcher)
}

func (f *follower) follow(ctx context.Context, watcher *fsnotify.Watcher) error {
	due := time.NewTimer(0) // the file may have changed since the caller read it
	defer due.Stop()
	gone := time.NewTimer(f.absence)
	gone.Stop()
	missing, deferred := false, 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.Events:
			if f.ends(event) {
				return fmt.Errorf("watching configuration: %s has gone", filepath.Dir(f.path))
			}
			if deferred < deferrals {
				deferred++
				due.Reset(f.quiet)
			}
		case _, open := <-watcher.Errors:
			if !open {
				return nil
			}
			due.Reset(f.quiet) // events were lost; the file says what they meant
		case <-due.C:
			deferred = 0
			was := missing
			missing = f.look(false)
			f.plan(due, gone, missing, was)
		case <-gone.C:
			missing = f.look(true)
			f.plan(due, gone, missing, true)
		}
	}
}

// plan sets when the file is looked at next without an event.
func (f *follower) plan(due, gone *time.Timer, missing, was bool) {
	switch {
	case !missing:
		gone.Stop()
	case !was:
		gone.Reset(f.absence)
	}
	if f.passing {
		due.Reset(f.again)
	}
}

// ends reports whether the directory was removed, and the watch with it.
func (f *follower) ends(event fsnotify.Event) bool {
	return event.Name == filepath.Dir(f.path) && event.Has(fsnotify.Remove|fsnotify.Rename)
}

// look reads the file, reports what is new, and returns whether the file is
// missing, which is a fault only where it is asked to say so. A file without a
// byte counts as missing: it is about to be written.
func (f *follower) look(sayMissing bool) (missing bool) {
	f.passing = false
	data, err := read(f.path)
	if err == nil && len(data) == 0 {
		err = errEmpty
		missing = true
	}
	if err != nil {
		missing = missing || errors.Is(err, fs.ErrNotExist)
		switch {
		case !missing:
			f.refuseForNow(err)
		case sayMissing:
			f.seen = nil
			f.refuse(err)
		}
		return missing
	}
	if f.seen == nil || !bytes.Equal(data, f.seen) {
		f.seen = data
		f.judge(data)
	}
	return false
}

func (f *follower) judge(data []byte) {
	c, err := Parse(data)
	if err != nil {
		f.refuse(err)
		return
	}
	meaning, err := Explain(c)
	if err != nil {
		f.refuse(err)
		return
	}
	if f.failed == "" && bytes.Equal(meaning, f.inForce) {
		return
	}
	if err := f.apply(c); err != nil {
		f.refuseForNow(err)
		return
	}
	f.failed, f.inForce = "", meaning
}

// refuseForNow reports a fault that the file's content did not make, and has the
// file judged again later.
func (f *follower) refuseForNow(err error) {
	f.passing, f.seen = true, nil
	f.refuse(fmt.Errorf("%w; trying again every %v", err, f.again))
}

// refuse reports a fault unless it is the one reported last.
func (f *follower) refuse(err error) {
	if err.Error() == f.failed {
		return
	}
	f.failed = err.Error()
	f.refused(err)
}
