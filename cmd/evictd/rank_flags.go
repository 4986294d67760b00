package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/pkg/pressure"
)

// standardStream is the file name that means stdin or stdout.
const standardStream = "-"

// intervalLowest keeps --watch from listing the node's pods without a pause.
const intervalLowest = 500 * time.Millisecond

// rankFlags are the flags of `evictd rank`.
type rankFlags struct {
	whereFlags

	signal   string
	output   string
	why      string
	watch    bool
	interval time.Duration
	budgets  int
	snapshot string
	save     string
}

// check rejects obvious mistakes, before anything is opened, and returns the signal. Changed
// reports whether a flag was given.
func (f *rankFlags) check(changed func(string) bool) (pressure.Signal, error) {
	switch {
	case f.snapshot != "":
	case changed("snapshot"):
		return 0, usageError{errors.New("--snapshot is empty: name a file, or - for stdin")}
	default:
		if err := f.whereFlags.check(); err != nil {
			return 0, err
		}
	}
	for _, check := range []func(func(string) bool) error{f.checkFormat, f.checkTogether, f.checkValues} {
		if err := check(changed); err != nil {
			return 0, usageError{err}
		}
	}
	return rankSignal(f.signal)
}

func (f *rankFlags) checkFormat(func(string) bool) error {
	switch f.output {
	case formatTable, formatWide, formatJSON, formatYAML:
		return nil
	default:
		return fmt.Errorf("--output %q: write table, wide, json or yaml", f.output)
	}
}

// checkTogether rejects flags that make each other meaningless.
func (f *rankFlags) checkTogether(changed func(string) bool) error {
	for _, pair := range []struct{ one, other, why string }{
		{"snapshot", "node-name", "the snapshot says which node it is of"},
		{"snapshot", "kubeconfig", "no API server is read"},
		{"snapshot", "kubepods-cgroup", "no machine is read"},
		{"snapshot", "host-root", "no machine is read"},
		{"snapshot", "budgets", "the snapshot contains them"},
		{"snapshot", "save", "it is saved already: copy the file"},
		{"snapshot", "watch", "it does not change"},
		{"save", "watch", "a snapshot is of one moment"},
		{"why", "watch", "the story is longer than a screen: watch the table"},
		{"why", "output", "the story is prose; leave --output out"},
	} {
		if changed(pair.one) && changed(pair.other) {
			return fmt.Errorf("--%s and --%s do not go together: %s", pair.one, pair.other, pair.why)
		}
	}
	switch {
	case f.watch && (f.output == formatJSON || f.output == formatYAML):
		return fmt.Errorf("--watch and --output %s do not go together: a refresh that fails has no place in a stream of documents; call evictd rank -o %s in a loop",
			f.output, f.output)
	case f.save == standardStream && (changed("output") || changed("why")):
		return errors.New("--save - writes the snapshot to stdout and no ranking: leave --output and --why out, or name a file")
	case changed("interval") && !f.watch:
		return errors.New("--interval is for --watch: add it, or leave --interval out")
	}
	return nil
}

func (f *rankFlags) checkValues(changed func(string) bool) error {
	namespace, name, _ := strings.Cut(f.why, "/")
	switch {
	case changed("why") && (namespace == "" || name == "" || strings.Contains(name, "/")):
		return fmt.Errorf("--why %q: write NAMESPACE/POD", f.why)
	case changed("save") && f.save == "":
		return errors.New("--save is empty: name a file, or - for stdout")
	case f.budgets < 0:
		return fmt.Errorf("--budgets %d: write 0 to ask about none, or how many candidates to ask about", f.budgets)
	case f.interval < intervalLowest:
		return fmt.Errorf("--interval %v: write at least %v; each look lists the node's pods", f.interval, intervalLowest)
	case f.save != "" && f.save != standardStream:
		if err := snapshot.CheckFree(f.save); err != nil {
			return fmt.Errorf("--save %s: %w", f.save, err)
		}
	}
	return nil
}

// rankSignal returns the signal of that name, if pods can be ranked for it.
func rankSignal(name string) (pressure.Signal, error) {
	var names []string
	for _, signal := range rankable() {
		if signal.String() == name {
			return signal, nil
		}
		names = append(names, signal.String())
	}
	why := "no such signal"
	if name == pressure.MemoryStall.String() {
		why = "no pod uses stall time; in a stall pods go in the order of memory.available"
	}
	return 0, usageError{fmt.Errorf("--signal %q: %s; name one of %s", name, why, strings.Join(names, ", "))}
}

// rankable returns the signals that pods can be ranked for.
func rankable() []pressure.Signal {
	var signals []pressure.Signal
	for _, signal := range pressure.Signals() {
		if signal != pressure.MemoryStall {
			signals = append(signals, signal)
		}
	}
	return signals
}
