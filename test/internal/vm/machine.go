package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// HasCgroup2 reports whether this machine itself has cgroup v2 alone, so that it needs no
// virtual one.
func HasCgroup2() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// Machine is a virtual machine with 2 emulated CPUs, PSI switched on and no network.
type Machine struct {
	Kernel    Kernel
	Initramfs string // made by [Tree.Initramfs]
	Disk      string // a file, /dev/vda: made by [Tree.Disk] or [EmptyDisk]
	Memory    string // as qemu writes it: 1G
}

// New returns a machine with the kernel of the unpacked packages. Dir is the directory of the machine's own files, which are
// still to be made. It fails on an architecture other than amd64, which would need another kernel package.
func New(packages, dir, memory string) (m Machine, err error) {
	if runtime.GOARCH != "amd64" {
		return m, fmt.Errorf("this machine has no cgroup v2, and the virtual machine is for amd64, not %s", runtime.GOARCH)
	}
	m = Machine{Initramfs: filepath.Join(dir, "initramfs"), Disk: filepath.Join(dir, "disk"), Memory: memory}
	m.Kernel, err = findKernel(packages)
	return m, err
}

// Boot runs the virtual machine until it powers off, and writes its serial console to the
// report. The tests must have passed. When the context ends, only qemu is killed.
func (m Machine) Boot(ctx context.Context, r *Report) error {
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-machine", //nolint:gosec // the words are all known
		"q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", m.Memory,
		"-nodefaults", "-nic", "none", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", m.Kernel.image, "-initrd", m.Initramfs,
		"-append", "console=ttyS0 quiet loglevel=1 panic=-1 psi=1",
		"-drive", "if=virtio,format=raw,cache=unsafe,file="+m.Disk)
	qemu.Stdout, qemu.Stderr = r, os.Stderr
	fmt.Printf("Booting %s under qemu, in software; no network.\n", filepath.Base(m.Kernel.image))
	err := qemu.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the virtual machine was ended before the tests were: %w", ctx.Err())
	case err != nil:
		return fmt.Errorf("qemu: %w", err)
	case r.exit() == "":
		return errors.New("the virtual machine ended before the tests did")
	case r.exit() != "0":
		return errors.New("the tests failed")
	}
	return nil
}
