package main

import (
	"context"
	_ "embed" // for the init script
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/evictd/evictd/test/internal/vm"
)

//go:embed init
var initScript []byte

// prefix is the prefix of the scenarios' names.
const prefix = "TestCgroup2"

// names returns the tests that must exist, must pass and must not be skipped in any
// part. The list makes a renamed or deleted test fail.
func names() []string {
	return []string{
		prefix + "RealCgroups",
		prefix + "MemoryHog",
		prefix + "PodThrashesAloneInItsMemoryMax",
		prefix + "HugepagesReserved",
		prefix + "BigFileReadTwice",
		prefix + "AllocatableMemory",
		prefix + "PodDetail",
		prefix + "CPUListsAreDrainedBeforeAKill",
	}
}

// suite is a package's test binary.
type suite struct{ name, binary, source string }

// scenarios runs the tests of the packages that read cgroups.
func scenarios(ctx context.Context, o options) error {
	var suites []suite
	for _, name := range []string{"pressure", "usage"} {
		s := suite{name: name, binary: filepath.Join(o.dir, name+".test"), source: filepath.Join(o.repo, "pkg", name)}
		if err := build(ctx, s.source, s.binary, "."); err != nil {
			return err
		}
		suites = append(suites, s)
	}
	asked, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	expected := slices.DeleteFunc(names(), func(name string) bool { return !asked.MatchString(name) })
	return reported(o, prefix, expected, func(r *vm.Report) error {
		if !o.inVM {
			return here(ctx, o, suites, r)
		}
		return boot(ctx, o, r, "1G", func(m vm.Machine) error { return pack(ctx, o, m, suites) })
	})
}

// here runs the tests on this machine.
func here(ctx context.Context, o options, suites []suite, r *vm.Report) error {
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

// pack makes the initramfs, and an empty disk.
func pack(ctx context.Context, o options, m vm.Machine, suites []suite) error {
	const diskSize = 2 << 30 // bytes
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
