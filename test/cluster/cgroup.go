package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

const cgroupRootPrefix = "evictd-node-"

// hierarchies returns where the cgroup trees are mounted, and whether there is no one of version 1: only then does
// the kubelet use version 2.
func hierarchies() (mounts []string, onlyV2 bool, err error) {
	found, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err == nil && len(found) == 0 {
		err = errors.New("none are mounted")
	}
	if err != nil {
		return nil, false, fmt.Errorf("looking for cgroups: %w", err)
	}
	onlyV2 = true
	for _, each := range found {
		mounts = append(mounts, each.Mountpoint)
		onlyV2 = onlyV2 && each.FSType == "cgroup2"
	}
	return mounts, onlyV2, nil
}

// makeCgroup creates the node's root in every hierarchy. With version 2 alone, the topmost group then hands down what the
// kubelet expects in its root.
func (m *machine) makeCgroup() error {
	mounts, onlyV2, err := hierarchies()
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		if err = os.Mkdir(filepath.Join(mount, m.cgroup), 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // the mode of every cgroup
			return fmt.Errorf("making the node's cgroup: %w", err)
		}
	}
	if !onlyV2 {
		return nil
	}
	m.control = filepath.Join(mounts[0], "cgroup.subtree_control")
	enabled, err := os.ReadFile(m.control)
	if err != nil {
		return fmt.Errorf("reading the enabled cgroup controllers: %w", err)
	}
	available, err := os.ReadFile(filepath.Join(mounts[0], "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading the cgroup controllers: %w", err)
	}
	for _, name := range []string{"cpu", "cpuset", "hugetlb", "memory", "pids"} {
		if slices.Contains(strings.Fields(string(available)), name) && !slices.Contains(strings.Fields(string(enabled)), name) {
			m.enabled = append(m.enabled, name)
		}
	}
	return m.switchControllers("+")
}

// switchControllers switches the controllers that the node has enabled on, or with "-" off.
func (m *machine) switchControllers(sign string) error {
	if len(m.enabled) == 0 {
		return nil
	}
	words := sign + strings.Join(m.enabled, " "+sign)
	if err := os.WriteFile(m.control, []byte(words), 0o600); err != nil {
		return fmt.Errorf("switching cgroup controllers %s: %w", words, err)
	}
	return nil
}

// removeLeftovers removes the cgroups of a node whose program was killed.
func removeLeftovers(ctx context.Context) error {
	mounts, _, err := hierarchies()
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		found, _ := filepath.Glob(filepath.Join(mount, cgroupRootPrefix+"*")) // the pattern is in order
		for _, root := range found {
			err = errors.Join(err, RemoveCgroups(ctx, filepath.Base(root)))
		}
	}
	return err
}

// RemoveCgroups removes a group with all below it in every hierarchy, the innermost first; root is the path below
// the hierarchies. A group stays busy for a moment after its last process has ended.
func RemoveCgroups(ctx context.Context, root string) error {
	mounts, _, err := hierarchies()
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		top := filepath.Join(mount, root)
		var last error
		if err := poll(ctx, func(context.Context) (bool, error) { last = removeTree(top); return last == nil, nil }); err != nil {
			return fmt.Errorf("removing cgroup %s: %w", top, errors.Join(err, last))
		}
	}
	return nil
}

func removeTree(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		if gone(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("looking for cgroups below %s: %w", top, err)
	}
	for _, dir := range slices.Backward(dirs) {
		if err := syscall.Rmdir(dir); err != nil && !gone(err) {
			return fmt.Errorf("removing %s: %w", dir, err)
		}
	}
	return nil
}

// gone reports whether a cgroup was removed while it was read.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}
