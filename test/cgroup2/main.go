// Command cgroup2 runs tests as root on cgroup v2: those of pkg/pressure and pkg/usage, or with -node the
// end-to-end tests on a whole node, from etcd to the kubelet. It runs them on this machine where it has version 2,
// otherwise in a Debian kernel under qemu, in software, without network and with only the files that it is given.
// It prints the output of the tests, and at the end their results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/vm"
)

type options struct {
	dir     string // of everything that is built, and of the output
	repo    string // evictd's repository, for -node with everything built in bin
	run     string
	node    bool
	inVM    bool // this machine has no cgroup v2
	timeout time.Duration
}

// The unpacked packages of Debian, which the Makefile gets: the kernel, and the programs of a node.
const kernelDir, programsDir = "../bin/vm/kernel", "../bin/vm/node"

func main() { os.Exit(measure.Run("test-cgroup2", run)) }

func parse(arguments []string) (o options, err error) {
	flags := flag.NewFlagSet("cgroup2", flag.ContinueOnError)
	flags.StringVar(&o.run, "run", ".", "the tests to run, as go test's -run")
	flags.BoolVar(&o.node, "node", false, "the end-to-end tests, on a whole node")
	if err = flags.Parse(arguments); err != nil {
		return o, err
	}
	name := "cgroup2"
	o.inVM, o.timeout = !vm.HasCgroup2(), 10*time.Minute
	if o.node {
		name, o.timeout = "cgroup2node", 90*time.Minute
	}
	if o.repo, err = filepath.Abs(".."); err != nil {
		return o, fmt.Errorf("finding the repository: %w", err)
	}
	o.dir = filepath.Join(o.repo, "bin", name)
	return o, os.MkdirAll(o.dir, 0o750)
}

func run(ctx context.Context, arguments []string) error {
	o, err := parse(arguments)
	if err != nil {
		return err
	}
	if !o.inVM {
		fmt.Println("The virtual machine is skipped: this machine has cgroup v2 itself.")
	}
	if o.node {
		return onNode(ctx, o)
	}
	return scenarios(ctx, o)
}

// boot runs the tests in a virtual machine whose files prepare makes.
func boot(ctx context.Context, o options, r *vm.Report, memory string, prepare func(vm.Machine) error) error {
	machine, err := vm.New(kernelDir, o.dir, memory)
	if err == nil {
		err = prepare(machine)
	}
	if err != nil {
		return fmt.Errorf("preparing the virtual machine: %w", err)
	}
	defer os.Remove(machine.Disk) //nolint:errcheck // the next run makes a new one anyway
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return machine.Boot(ctx, r)
}

// reported runs tests whose output goes to a report, and judges them at the end.
func reported(o options, prefix string, expected []string, tests func(*vm.Report) error) error {
	report, err := vm.NewReport(filepath.Join(o.dir, "output.log"), prefix, expected)
	if err != nil {
		return err
	}
	defer report.Close() //nolint:errcheck // a log
	return errors.Join(tests(report), report.Judge())
}

// build builds the tests of a package.
func build(ctx context.Context, dir, binary string, arguments ...string) error {
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-c", "-o", binary}, arguments...)...) //nolint:gosec // in the project's own directory
	command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the tests in %s: %w\n%s", dir, err, output)
	}
	return nil
}
