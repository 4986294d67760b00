// Command cgroup2node runs the end-to-end tests on a whole node on cgroup v2, from etcd to
// the kubelet: on this machine where it has version 2, as `make e2e-all`, otherwise in a Debian
// kernel under qemu, in software, without network and with only the files that it is given.
// It prints the output of the tests as they run, and at the end their results.
package main

import (
	"cmp"
	"context"
	_ "embed" // for the init scripts
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/internal/node"
	"github.com/evictd/evictd/test/internal/vm"
)

const (
	// diskSize is that of the disk in bytes: the programs, and the node's images and volumes.
	diskSize  = 10 << 30
	memoryMiB = 10 << 10
	// patience is how many times longer a test waits in the virtual machine: a program takes
	// five to ten times longer there.
	patience = 5
)

var (
	//go:embed boot
	bootScript []byte
	//go:embed init
	initScript []byte
)

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
	flag.StringVar(&o.dir, "dir", "../bin/cgroup2node", "where the disk and the test binary are kept")
	flag.StringVar(&o.debian, "debian", "../bin/vm", "where the kernel and the programs of Debian are kept")
	flag.StringVar(&o.repo, "repo", "..", "evictd's repository, with everything built in bin")
	flag.StringVar(&o.run, "run", ".", "the tests to run, as go test's -run")
	flag.BoolVar(&o.inVM, "vm", false, "use the virtual machine also where this machine has cgroup v2")
	flag.DurationVar(&o.timeout, "timeout", 90*time.Minute, "how long the tests may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e-cgroup2:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var err error
	for _, dir := range []*string{&o.dir, &o.repo} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	if vm.HasCgroup2() && !o.inVM {
		return runHere(ctx, o)
	}
	if err = os.MkdirAll(o.dir, 0o750); err != nil {
		return err
	}
	machine, err := prepare(ctx, o)
	if err != nil {
		return fmt.Errorf("preparing the virtual machine: %w", err)
	}
	defer os.Remove(machine.Disk) //nolint:errcheck // the next run makes a new one anyway
	report, err := vm.NewReport(filepath.Join(o.dir, "output.log"), "A node on cgroup v2", "", nil)
	if err != nil {
		return err
	}
	defer report.Close() //nolint:errcheck // a log
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return errors.Join(machine.Boot(ctx, report), report.Print())
}

// runHere runs the same tests by make e2e.
func runHere(ctx context.Context, o options) error {
	fmt.Println("The virtual machine is skipped: this machine has cgroup v2 itself, and 'make e2e' is the same.")
	e2e := exec.CommandContext(ctx, "make", "e2e")
	e2e.Dir, e2e.Stdout, e2e.Stderr = o.repo, os.Stdout, os.Stderr
	e2e.Env = append(os.Environ(), "RUN="+pattern(o))
	return e2e.Run()
}

// pattern returns what -test.run gets: all of them where the flag is empty.
func pattern(o options) string { return cmp.Or(o.run, ".") }

// prepare makes the initramfs and the disk of the virtual machine.
func prepare(ctx context.Context, o options) (vm.Machine, error) {
	if available, err := node.MemoryAvailable(); err != nil || available>>20 < memoryMiB {
		return vm.Machine{}, errors.Join(err, fmt.Errorf("it needs %d MiB of memory, and %d are available", memoryMiB, available>>20))
	}
	m, debian, err := vm.New(ctx, o.debian, o.dir, fmt.Sprintf("%dM", memoryMiB))
	if err != nil {
		return m, err
	}
	boot, err := vm.NewTree(filepath.Join(o.dir, "boot"), "proc", "dev", "disk")
	if err != nil {
		return m, err
	}
	err = errors.Join(
		boot.AddKernel(m.Kernel, "virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "overlay", "loop"),
		boot.Write("init", bootScript),
	)
	if err == nil {
		err = boot.Initramfs(ctx, m.Kernel, m.Initramfs)
	}
	if err != nil {
		return m, err
	}
	return m, makeDisk(ctx, o, debian, m.Disk)
}

// makeDisk puts Debian's runc and mkfs.ext4 on the disk, and what `make e2e` uses.
func makeDisk(ctx context.Context, o options, debian vm.Debian, disk string) error {
	programs, err := debian.Userland(ctx, "node", "runc", "e2fsprogs")
	if err != nil {
		return err
	}
	binary := filepath.Join(o.dir, "e2e.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "e2e_all", "-o", binary, "./e2e") //nolint:gosec // in the project's own directory
	build.Dir, build.Env = filepath.Join(o.repo, "test"), append(os.Environ(), "CGO_ENABLED=0")
	if output, fault := build.CombinedOutput(); fault != nil {
		return fmt.Errorf("building the tests: %w\n%s", fault, output)
	}
	root, err := vm.NewTree(filepath.Join(o.dir, "root"),
		"proc", "sys", "dev", "run", "tmp", "data", "root", "opt/busybox", "var/lib", "var/log", "repo/test/e2e")
	if err != nil {
		return err
	}
	failed := errors.Join(root.AddUserland(programs), root.Add("repo/e2e.test", binary), root.Write("init", initScript))
	for _, path := range []string{"bin/cluster", "bin/evictd", "bin/evictd-image.tar", "deploy"} {
		failed = errors.Join(failed, root.Add(filepath.Join("repo", path), filepath.Join(o.repo, path)))
	}
	for path, content := range map[string]string{
		"repo/run": pattern(o), "repo/timeout": o.timeout.String(), "repo/patience": fmt.Sprint(patience),
	} {
		failed = errors.Join(failed, root.Write(path, []byte(content)))
	}
	if failed != nil {
		return failed
	}
	return root.Disk(ctx, programs, disk, diskSize)
}
