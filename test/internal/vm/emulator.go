package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Emulator returns qemu for the programs of another architecture, by qemu's name of it. It runs
// one program on this machine's kernel, in software. Without it on this machine, Debian's static
// one is downloaded into the directory of the packages, unless an earlier run has, and not
// installed.
func Emulator(ctx context.Context, packages, architecture string) (string, error) {
	name := "qemu-" + architecture + "-static"
	if program, err := exec.LookPath(name); err == nil {
		return program, nil
	}
	debian, err := newDebian(packages)
	if err != nil {
		return "", err
	}
	const unpacked = "qemu-user"
	program := filepath.Join(debian.dir, unpacked, "usr/bin", name)
	if _, err = os.Stat(program); err == nil {
		return program, nil
	}
	if err = debian.download(ctx, unpacked, "Debian's qemu-user-static (60 MB)", "qemu-user-static"); err != nil {
		return "", err
	}
	if _, err = os.Stat(program); err != nil {
		return "", fmt.Errorf("the package qemu-user-static holds no %s: install qemu for that architecture under this name", name)
	}
	return program, nil
}
