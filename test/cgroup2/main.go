// Command cgroup2 runs the tests of pkg/pressure and pkg/usage as root on cgroup v2: on this
// machine where it has version 2, otherwise in a Debian kernel under qemu, in software,
// without network and with only the files that it is given. It prints the output of the
// tests, and at the end the scenarios.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// prefix is the prefix of the scenarios' names.
const prefix = "TestCgroup2"

// scenarios returns the tests that must exist, must pass and must not be skipped in any
// part. The list makes a renamed or deleted test fail.
func scenarios() []string {
	return []string{
		prefix + "RealCgroups",
		prefix + "MemoryHog",
		prefix + "PSITriggerFires",
		prefix + "PodThrashesAloneInItsMemoryMax",
		prefix + "HugepagesReserved",
		prefix + "BigFileReadTwice",
		prefix + "AllocatableMemory",
		prefix + "OOMKills",
		prefix + "PodDetail",
	}
}

type options struct {
	dir     string // of everything that is downloaded or built
	repo    string
	run     string
	vm      bool
	timeout time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "../bin/cgroup2", "where the kernel, the disk and the test binaries are kept")
	flag.StringVar(&o.repo, "repo", "..", "evictd's repository")
	flag.StringVar(&o.run, "run", ".", "the tests to run, as go test's -run")
	flag.BoolVar(&o.vm, "vm", false, "use the virtual machine also where this machine has cgroup v2")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long the tests may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test-cgroup2:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var err error
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	if err = os.MkdirAll(o.dir, 0o750); err != nil {
		return err
	}
	suites, err := build(ctx, o)
	if err != nil {
		return err
	}
	report, err := newReport(ctx, suites, o.run, filepath.Join(o.dir, "output.log"))
	if err != nil {
		return err
	}
	defer report.close()
	var failed error
	if hasCgroup2() && !o.vm {
		fmt.Println("The virtual machine is skipped: this machine has cgroup v2 itself.")
		failed = runHere(ctx, o, suites, report)
	} else {
		failed = runInVM(ctx, o, suites, report)
	}
	return errors.Join(failed, report.print())
}

// suite is a package's test binary.
type suite struct{ name, binary, source string }

func build(ctx context.Context, o options) ([]suite, error) {
	var suites []suite
	for _, name := range []string{"pressure", "usage"} {
		s := suite{name: name, binary: filepath.Join(o.dir, name+".test"), source: filepath.Join(o.repo, "pkg", name)}
		command := exec.CommandContext(ctx, "go", "test", "-c", "-o", s.binary, ".") //nolint:gosec // in the project's own directory
		command.Dir, command.Env = s.source, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the tests of %s: %w\n%s", name, err, output)
		}
		suites = append(suites, s)
	}
	return suites, nil
}

func hasCgroup2() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

func runHere(ctx context.Context, o options, suites []suite, r *report) error {
	if os.Geteuid() != 0 {
		return errors.New("only root may make cgroups: run it as root")
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var failed error
	for _, s := range suites {
		command := exec.CommandContext(ctx, s.binary, "-test.v", "-test.run="+o.run) //nolint:gosec // what was just built
		command.Dir, command.Stdout, command.Stderr = s.source, r, os.Stderr
		if err := command.Run(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("the tests of %s: %w", s.name, err))
		}
	}
	return failed
}

func runInVM(ctx context.Context, o options, suites []suite, r *report) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("this machine has no cgroup v2, and the virtual machine is for amd64, not %s", runtime.GOARCH)
	}
	m := machine{dir: o.dir}
	for _, step := range []func(context.Context) error{m.findQemu, m.unpack, m.listModules} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := m.stage(suites, o.run); err != nil {
		return fmt.Errorf("preparing the virtual machine's files: %w", err)
	}
	if err := m.pack(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return m.boot(ctx, r)
}
