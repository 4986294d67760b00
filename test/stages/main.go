// Command stages runs targets of the Makefile one after the other, whatever failed before, and ends with
// one table of them and the slowest tests:
//
//	stages [--record NAME] TARGET...
//
// With --record it appends one line with the sums to docs/test-results.md, also when something failed.
// It exits with 1 when a target failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// resultsVariable names the directory in which a target leaves the events of its tests, as `go test -json`
// prints them. It is set for a target that stages runs, which may run stages again.
const resultsVariable = "TEST_RESULTS"

// failedFile is in the directory of a target that failed.
const failedFile = "failed"

// stage is one target and how it ended.
type stage struct {
	name    string
	tests   tests
	failed  bool // as a whole: a target without tests has nothing else
	seconds float64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	good, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "stages:", err)
		os.Exit(2)
	case !good:
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) (good bool, err error) {
	flags := flag.NewFlagSet("stages", flag.ContinueOnError)
	record := flags.String("record", "", "name in docs/test-results.md")
	if err = flags.Parse(arguments); err != nil {
		return false, err
	}
	repository, err := os.Getwd() // with the Makefile
	if err != nil {
		return false, fmt.Errorf("finding the Makefile: %w", err)
	}
	outer := os.Getenv(resultsVariable)
	all, err := runAll(ctx, repository, outer, flags.Args(), out)
	if err != nil {
		return false, err
	}
	if outer == "" { // else the outer one prints it
		if _, err = io.WriteString(out, table(all)); err != nil {
			return false, fmt.Errorf("printing the table: %w", err)
		}
	}
	if *record != "" {
		if err = appendLine(ctx, repository, *record, all); err != nil {
			return false, err
		}
	}
	return !slices.ContainsFunc(all, func(s stage) bool { return s.failed }), nil
}

// runAll runs the targets. After an interrupt each that is left fails at once, and the table says so.
func runAll(ctx context.Context, repository, outer string, targets []string, out io.Writer) ([]stage, error) {
	var all []stage
	for _, target := range targets {
		dir := filepath.Join(outer, target)
		if outer == "" {
			dir = filepath.Join(repository, "bin", "results", target)
		}
		if err := os.RemoveAll(dir); err != nil { //nolint:gosec // the folder of this target alone
			return nil, fmt.Errorf("removing earlier results: %w", err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // results are no secret
			return nil, fmt.Errorf("making a directory for results: %w", err)
		}
		s, err := runOne(ctx, repository, target, dir, out)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// say prints progress. An output that fails must not fail the tests.
func say(out io.Writer, format string, arguments ...any) {
	_, _ = fmt.Fprintf(out, format, arguments...)
}

func runOne(ctx context.Context, repository, target, dir string, out io.Writer) (stage, error) {
	say(out, "== make %s\n", target)
	started := time.Now()
	command := exec.CommandContext(ctx, "make", "--no-print-directory", target) //nolint:gosec // a target of this repository
	command.Dir, command.Env = repository, append(os.Environ(), resultsVariable+"="+dir)
	command.Stdout, command.Stderr = out, os.Stderr
	// A test removes its cluster when it gets the signal, which make does not pass on.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	fault := command.Run()
	s := stage{name: target, failed: fault != nil, seconds: time.Since(started).Seconds()}
	word := "passed"
	if s.failed {
		word = fmt.Sprintf("failed (%v)", fault)
		if err := os.WriteFile(filepath.Join(dir, failedFile), nil, 0o600); err != nil { //nolint:gosec // the folder of this target alone
			return stage{}, fmt.Errorf("noting a failure: %w", err)
		}
	}
	say(out, "== make %s: %s in %.0f s\n", target, word, s.seconds)
	var err error
	s.tests, err = readTests(dir)
	return s, err
}
