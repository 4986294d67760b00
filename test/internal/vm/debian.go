package vm

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Kernel is a kernel with its modules, and a static busybox, of Debian's packages.
type Kernel struct {
	image, busybox string
	modules        string // the directory lib/modules/<release>
}

// findKernel finds them in a directory of unpacked packages.
func findKernel(root string) (Kernel, error) {
	var k Kernel
	root, err := filepath.Abs(root) // busybox is run in another directory
	if err != nil {
		return k, err
	}
	for _, one := range []struct {
		path     *string
		patterns []string // from Debian 13 on all is below usr
	}{
		{&k.image, []string{"boot/vmlinuz-*"}},
		{&k.busybox, []string{"bin/busybox", "usr/bin/busybox"}},
		{&k.modules, []string{"lib/modules/*", "usr/lib/modules/*"}},
	} {
		for _, pattern := range one.patterns {
			if found, _ := filepath.Glob(filepath.Join(root, pattern)); len(found) == 1 { // the patterns are well-formed
				*one.path = found[0]
			}
		}
		if *one.path == "" {
			return k, fmt.Errorf("looking for Debian's kernel: %s has no %s: remove it, and 'make test-cgroup2' unpacks the packages", root, one.patterns[0])
		}
	}
	return k, nil
}

// Userland is a root directory with the programs of unpacked packages, and all that these depend on.
type Userland string

// Command runs one of the unpacked programs on this machine, by the libraries beside it. Its
// output matters only when it fails.
func (u Userland) Command(ctx context.Context, program string, args ...string) error {
	libraries := filepath.Join(string(u), "lib/x86_64-linux-gnu")
	words := []string{"--library-path", libraries + ":" + filepath.Join(string(u), "usr/lib/x86_64-linux-gnu"), filepath.Join(string(u), program)}
	return command(ctx, "", filepath.Join(libraries, "ld-linux-x86-64.so.2"), append(words, args...)...)
}

// command runs a program whose output matters only when it fails.
func command(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // this package's own words
	c.Dir = dir
	output, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(output))
	}
	return nil
}
