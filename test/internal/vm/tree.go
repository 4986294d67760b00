package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Tree is a directory that becomes a filesystem of the virtual machine.
type Tree struct{ dir string }

// NewTree empties the directory, and creates the directories in it.
func NewTree(dir string, dirs ...string) (Tree, error) {
	t := Tree{dir: dir}
	if err := os.RemoveAll(dir); err != nil {
		return t, fmt.Errorf("emptying %s: %w", dir, err)
	}
	for _, d := range append(dirs, ".") {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil { //nolint:gosec // some tests are a user without rights
			return t, fmt.Errorf("making a directory of the virtual machine: %w", err)
		}
	}
	return t, nil
}

// Write writes an executable file.
func (t Tree) Write(to string, content []byte) error {
	path, err := t.place(to)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o755) //nolint:gosec // programs, in a directory of the project
}

// Add adds a file, or a directory with all that is in it. Symbolic links stay what they are.
func (t Tree) Add(to, from string) error {
	target, err := t.place(to)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(target, os.DirFS(from))
	}
	content, err := os.ReadFile(from) //nolint:gosec // the project's own
	if err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o755) //nolint:gosec // programs, in a directory of the project
}

// AddUserland adds the programs of the packages to the root directory.
func (t Tree) AddUserland(u Userland) error {
	return t.Add(".", string(u))
}

// place makes the directory of a file.
func (t Tree) place(to string) (string, error) {
	path := filepath.Join(t.dir, to)
	return path, os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // as in NewTree
}

// AddKernel adds busybox, and the modules with those that they depend on.
func (t Tree) AddKernel(k Kernel, modules ...string) error {
	dependencies, err := os.ReadFile(filepath.Join(k.modules, "modules.dep"))
	if err != nil {
		return fmt.Errorf("reading the modules' dependencies: %w", err)
	}
	files := map[string]bool{"modules.dep": true}
	for line := range strings.Lines(string(dependencies)) {
		file, others, _ := strings.Cut(strings.TrimSpace(line), ":")
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		if !strings.Contains(" "+strings.Join(modules, " ")+" ", " "+strings.ReplaceAll(name, "-", "_")+" ") {
			continue
		}
		for _, needed := range append(strings.Fields(others), file) {
			files[needed] = true
		}
	}
	failed := t.Add("bin/busybox", k.busybox)
	for file := range files {
		failed = errors.Join(failed, t.Add(filepath.Join("lib/modules", filepath.Base(k.modules), file), filepath.Join(k.modules, file)))
	}
	return failed
}

// Initramfs packs the tree, which has the first process in /init.
func (t Tree) Initramfs(ctx context.Context, k Kernel, file string) error {
	const script = `find . | "$0" cpio -o -H newc -R 0:0 >"$1"`
	if err := command(ctx, t.dir, "sh", "-e", "-c", script, k.busybox, file); err != nil {
		return fmt.Errorf("packing the initramfs: %w", err)
	}
	return nil
}

// Disk makes a sparse file of that many bytes with an ext4 filesystem of the tree, by the
// mke2fs of a userland with e2fsprogs, without mounting anything.
func (t Tree) Disk(ctx context.Context, u Userland, file string, size int64) error {
	if err := EmptyDisk(file, size); err != nil {
		return err
	}
	// No journal: the disk does not outlive the virtual machine.
	if err := u.Command(ctx, "sbin/mke2fs", "-q", "-F", "-t", "ext4", "-E", "root_owner=0:0", "-O", "^has_journal", "-d", t.dir, file); err != nil {
		return fmt.Errorf("making the disk: %w", err)
	}
	return nil
}

// EmptyDisk makes a sparse file of that many bytes.
func EmptyDisk(file string, size int64) error {
	_ = os.Remove(file)          // there may be none
	disk, err := os.Create(file) //nolint:gosec // in a directory of the project
	if err != nil {
		return fmt.Errorf("making the disk: %w", err)
	}
	return errors.Join(disk.Truncate(size), disk.Close())
}
