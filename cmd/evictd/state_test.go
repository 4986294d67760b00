package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// bootIDFile is where the kernel says which boot this is.
const bootIDFile = "proc/sys/kernel/random/boot_id"

// The use of the state directory at startup, in one line of the log. Why a file is not used is internal/state's to say.
func TestStateDirectoryAtTheStart(t *testing.T) {
	t.Parallel()
	whole, err := state.Encode(agent.State{}, "boot-1")
	must(t, err)
	for name, test := range map[string]struct{ boot, file, level, message string }{
		"no file":        {"boot-1\n", "", "info", "no state of a container before"},
		"a file":         {"boot-1\n", string(whole), "info", "going on with the state"},
		"another boot's": {"boot-2\n", string(whole), "warn", "the state of the container before is not used"},
		"no boot ID":     {"", string(whole), "warn", "starting without a state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, flags := newJournal(), flagsFor(t, machine(t), refusing())
			flags.stateDir = t.TempDir()
			for path, text := range map[string]string{
				filepath.Join(flags.hostRoot, bootIDFile): test.boot, filepath.Join(flags.stateDir, state.FileName): test.file,
			} {
				if text != "" {
					kernelfiletest.Put(t, path, text)
				}
			}
			builtDaemon(t, flags, log)
			said := regexp.MustCompile(`"level":"(\w+)".*"msg":"(.*state.*)`).FindAllStringSubmatch(log.String(), -1)
			if len(said) != 1 || said[0][1] != test.level || !strings.HasPrefix(said[0][2], test.message) {
				t.Errorf("want one line, %s, %q:\n%s", test.level, test.message, log)
			}
		})
	}
}
