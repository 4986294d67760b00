package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// booted is a machine with a boot ID, "" for none, and a state directory.
func booted(t *testing.T, bootID string) (root, dir string) {
	t.Helper()
	root = machine(t)
	if bootID != "" {
		kernelfiletest.Put(t, filepath.Join(root, "proc/sys/kernel/random/boot_id"), bootID+"\n")
	}
	return root, t.TempDir()
}

// The use of the state directory at startup, in one line of the log.
func TestStateDirectoryAtTheStart(t *testing.T) {
	t.Parallel()
	whole, err := state.Encode(agent.State{}, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		boot         string
		text         string // of the file; "" is none
		want, reason string
	}{
		"no file":            {"boot-1", "", `"level":"info".*no state of a container before`, ""},
		"a file":             {"boot-1", string(whole), `"level":"info".*going on with the state`, ""},
		"a file that is cut": {"boot-1", string(whole[:30]), `"level":"warn".*is not used`, "decoding the state file: unexpected end"},
		"another boot's":     {"boot-2", string(whole), `"level":"warn".*is not used`, `it is of boot \"boot-1\"`},
		"no boot ID":         {"", string(whole), `"level":"warn".*starting without a state`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, dir := booted(t, test.boot)
			if test.text != "" {
				kernelfiletest.Put(t, filepath.Join(dir, state.FileName), test.text)
			}
			log, flags := newJournal(), flagsFor(t, root, refusing())
			flags.stateDir = dir
			builtDaemon(t, flags, log)
			level, message, _ := strings.Cut(test.want, ".*")
			said := 0
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, level) && strings.Contains(line, message) && strings.Contains(line, test.reason) {
					said++
				}
			}
			if said != 1 {
				t.Errorf("%d lines with %q and %q, want one:\n%s", said, test.want, test.reason, log)
			}
		})
	}
}

// At SIGTERM the container's state is written to the directory.
func TestStateIsWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	root, dir := booted(t, "boot-1")
	flags := flagsFor(t, root, refusing())
	flags.stateDir = dir
	r := launch(t, flags)
	r.await(record.FailedWatch)
	r.stop()
	r.ends(exitFine)
	// The end does not wait for a slow disk, and here the write goes on after it.
	limit, poll := patience(t), time.NewTicker(10*time.Millisecond)
	defer poll.Stop()
	for {
		err := state.Load(dir, "boot-1", &agent.State{})
		if err == nil {
			return
		}
		select {
		case <-poll.C:
		case <-limit.Done():
			t.Fatal(err)
		}
	}
}
