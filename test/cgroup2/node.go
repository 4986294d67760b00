package main

import (
	"context"
	_ "embed" // for the init scripts
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/evictd/evictd/test/internal/node"
	"github.com/evictd/evictd/test/internal/vm"
)

const (
	// diskSize is that of the node's disk in bytes: the programs, and the node's images and volumes.
	diskSize  = 10 << 30
	memoryMiB = 10 << 10
	// patience is how many times longer a test waits in the virtual machine: a program takes
	// five to ten times longer there.
	patience = 5
)

var (
	//go:embed node-boot
	bootScript []byte
	//go:embed node-init
	nodeScript []byte
)

// onNode runs the end-to-end tests: by make e2e on this machine.
func onNode(ctx context.Context, o options) error {
	if !o.inVM {
		e2e := exec.CommandContext(ctx, "make", "e2e")
		e2e.Dir, e2e.Stdout, e2e.Stderr = o.repo, os.Stdout, os.Stderr
		e2e.Env = append(os.Environ(), "RUN="+o.run)
		return e2e.Run()
	}
	if available, err := node.MemoryAvailable(); err != nil || available>>20 < memoryMiB {
		return errors.Join(err, fmt.Errorf("it needs %d MiB of memory, and %d are available", memoryMiB, available>>20))
	}
	return reported(o, "", nil, func(r *vm.Report) error {
		return boot(ctx, o, r, fmt.Sprintf("%dM", memoryMiB), func(m vm.Machine) error { return packNode(ctx, o, m) })
	})
}

// packNode makes the initramfs and the disk of the virtual machine.
func packNode(ctx context.Context, o options, m vm.Machine) error {
	tree, err := vm.NewTree(filepath.Join(o.dir, "boot"), "proc", "dev", "disk")
	if err != nil {
		return err
	}
	err = errors.Join(
		tree.AddKernel(m.Kernel, "virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "overlay", "loop"),
		tree.Write("init", bootScript),
	)
	if err == nil {
		err = tree.Initramfs(ctx, m.Kernel, m.Initramfs)
	}
	if err != nil {
		return err
	}
	return makeDisk(ctx, o, m.Disk)
}

// makeDisk puts Debian's runc and mkfs.ext4 on the disk, and what `make e2e` uses.
func makeDisk(ctx context.Context, o options, disk string) error {
	const programs = vm.Userland(programsDir)
	binary := filepath.Join(o.dir, "e2e.test")
	if err := build(ctx, filepath.Join(o.repo, "test"), binary, "-tags", "e2e_all", "./e2e"); err != nil {
		return err
	}
	root, err := vm.NewTree(filepath.Join(o.dir, "root"),
		"proc", "sys", "dev", "run", "tmp", "data", "root", "opt/busybox", "var/lib", "var/log", "repo/test/e2e")
	if err != nil {
		return err
	}
	failed := errors.Join(root.AddUserland(programs), root.Add("repo/e2e.test", binary), root.Write("init", nodeScript))
	for _, path := range []string{"bin/cluster", "bin/evictd", "bin/evictd-image.tar", "deploy"} {
		failed = errors.Join(failed, root.Add(filepath.Join("repo", path), filepath.Join(o.repo, path)))
	}
	for path, content := range map[string]string{
		"repo/run": o.run, "repo/timeout": o.timeout.String(), "repo/patience": fmt.Sprint(patience),
	} {
		failed = errors.Join(failed, root.Write(path, []byte(content)))
	}
	if failed != nil {
		return failed
	}
	return root.Disk(ctx, programs, disk, diskSize)
}
