// Command cgroup2 runs the tests of pkg/pressure and pkg/usage as root on cgroup v2: on this
// machine where it has version 2, otherwise in a Debian kernel under qemu, in software,
// without network and with only the files that it is given. It prints the output of the
// tests, and at the end the scenarios.
package main

import (
	"context"
	_ "embed" // for the init script
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/internal/vm"
)

// diskSize is that of the empty disk, in bytes.
const diskSize = 2 << 30

//go:embed init
var initScript []byte

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
		prefix + "PodDetail",
		prefix + "CPUListsAreDrainedBeforeAKill",
	}
}

type options struct {
	dir     string // of everything that is built
	debian  string // of the unpacked packages
	repo    string
	run     string
	inVM    bool
	timeout time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "../bin/cgroup2", "where the disk and the test binaries are kept")
	flag.StringVar(&o.debian, "debian", "../bin/vm", "where the kernel is kept")
	flag.StringVar(&o.repo, "repo", "..", "evictd's repository")
	flag.StringVar(&o.run, "run", ".", "the tests to run, as go test's -run")
	flag.BoolVar(&o.inVM, "vm", false, "use the virtual machine also where this machine has cgroup v2")
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
	asked, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	expected := slices.DeleteFunc(scenarios(), func(name string) bool { return !asked.MatchString(name) })
	report, err := vm.NewReport(filepath.Join(o.dir, "output.log"), "cgroup v2", prefix, expected)
	if err != nil {
		return err
	}
	defer report.Close() //nolint:errcheck // a log
	var failed error
	if vm.HasCgroup2() && !o.inVM {
		fmt.Println("The virtual machine is skipped: this machine has cgroup v2 itself.")
		failed = runHere(ctx, o, suites, report)
	} else {
		failed = runInVM(ctx, o, suites, report)
	}
	return errors.Join(failed, report.Print())
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

func runHere(ctx context.Context, o options, suites []suite, r *vm.Report) error {
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

func runInVM(ctx context.Context, o options, suites []suite, r *vm.Report) error {
	machine, _, err := vm.New(ctx, o.debian, o.dir, "1G")
	if err != nil {
		return err
	}
	if err := pack(ctx, o, machine, suites); err != nil {
		return fmt.Errorf("preparing the virtual machine's files: %w", err)
	}
	defer os.Remove(machine.Disk) //nolint:errcheck // the next run makes a new one anyway
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return machine.Boot(ctx, r)
}

// pack makes the initramfs, and an empty disk.
func pack(ctx context.Context, o options, m vm.Machine, suites []suite) error {
	tree, err := vm.NewTree(filepath.Join(o.dir, "root"), "proc", "sys", "dev", "tmp", "data", "root")
	if err != nil {
		return err
	}
	failed := errors.Join(
		tree.AddKernel(m.Kernel, "virtio_pci", "virtio_blk", "crc32c_generic", "ext4"),
		tree.Write("init", initScript), tree.Write("tests/run", []byte(o.run)),
	)
	for _, s := range suites {
		failed = errors.Join(failed, tree.Add(filepath.Join("tests", s.name, "tests"), s.binary))
		testdata := filepath.Join(s.source, "testdata")
		if _, err := os.Stat(testdata); err == nil {
			failed = errors.Join(failed, tree.Add(filepath.Join("tests", s.name, "testdata"), testdata))
		}
	}
	if failed != nil {
		return failed
	}
	return errors.Join(tree.Initramfs(ctx, m.Kernel, m.Initramfs), vm.EmptyDisk(m.Disk, diskSize))
}
