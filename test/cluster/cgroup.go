package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// systemCgroup holds the cluster's own processes, below its root and beside the kubelet's
// kubepods. Their children stay in it or in kubepods, so that the next start finds the shims and
// containers that outlive a program that was killed.
const systemCgroup = "system"

// kubepodsCgroup is the kubelet's name for the group of all pods, below the root.
const kubepodsCgroup = "kubepods"

const cgroupRootPrefix = "evictd-node-"

// hierarchy is one mounted cgroup tree.
type hierarchy struct {
	mount  string
	v2     bool
	cpuset bool // a v1 hierarchy whose groups accept no process before they have CPUs
}

func hierarchies() ([]hierarchy, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	var found []hierarchy
	for _, each := range mounts {
		controllers := strings.Split(each.VFSOptions, ",") // of v1
		found = append(found, hierarchy{mount: each.Mountpoint, v2: each.FSType == "cgroup2", cpuset: slices.Contains(controllers, "cpuset")})
	}
	if len(found) == 0 {
		return nil, errors.New("looking for cgroups: none are mounted")
	}
	return found, nil
}

// pureV2 reports whether there is no v1 hierarchy: only then does the kubelet use v2.
func pureV2(all []hierarchy) bool {
	return !slices.ContainsFunc(all, func(h hierarchy) bool { return !h.v2 })
}

// makeCgroups creates the cluster's root and the group of its own processes in every
// hierarchy.
func makeCgroups(root string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, each := range all {
		for _, dir := range []string{filepath.Join(each.mount, root), filepath.Join(each.mount, root, systemCgroup)} {
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // the mode of every cgroup
				return fmt.Errorf("making cgroup %s: %w", dir, err)
			}
			if !each.cpuset {
				continue
			}
			if err := inheritCPUs(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func inheritCPUs(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		parent, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name)) //nolint:gosec // a cgroup of the cluster
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), parent, 0o600) //nolint:gosec // a cgroup of the cluster
		}
		if err != nil {
			return fmt.Errorf("giving cgroup %s its parent's %s: %w", dir, name, err)
		}
	}
	return nil
}

// kubeletControllers returns the controllers that the kubelet expects in its root group.
func kubeletControllers() []string {
	return []string{"cpu", "cpuset", "hugetlb", "memory", "pids"}
}

// controllersToEnable returns the controllers that the kubelet expects on a machine with v2
// only and that the topmost group does not delegate yet.
func controllersToEnable() ([]string, error) {
	all, err := hierarchies()
	if err != nil || !pureV2(all) {
		return nil, err
	}
	available, err := os.ReadFile(filepath.Join(all[0].mount, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("reading the cgroup controllers: %w", err)
	}
	enabled, err := os.ReadFile(filepath.Join(all[0].mount, "cgroup.subtree_control"))
	if err != nil {
		return nil, fmt.Errorf("reading the enabled cgroup controllers: %w", err)
	}
	return missingControllers(string(available), string(enabled)), nil
}

func missingControllers(available, enabled string) []string {
	return slices.DeleteFunc(kubeletControllers(), func(name string) bool {
		return !slices.Contains(strings.Fields(available), name) || slices.Contains(strings.Fields(enabled), name)
	})
}

// switchControllers makes the topmost group delegate controllers, or with "-" no longer.
func switchControllers(sign string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	words := sign + strings.Join(names, " "+sign)
	if err := os.WriteFile(filepath.Join(all[0].mount, "cgroup.subtree_control"), []byte(words), 0o600); err != nil {
		return fmt.Errorf("switching cgroup controllers %s: %w", words, err)
	}
	return nil
}

// joinCgroup moves a process into the cluster's group in every hierarchy. It is then neither
// accounted to, nor ended with, the session that started it.
func joinCgroup(root string, pid int) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, each := range all {
		procs := filepath.Join(each.mount, root, systemCgroup, "cgroup.procs")
		if err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0o600); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("moving process %d into cgroup %s: %w", pid, root, err)
		}
	}
	return nil
}

// nodeCgroups returns the roots of nodes in all hierarchies, as paths below these.
func nodeCgroups() ([]string, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, each := range all {
		found, err := filepath.Glob(filepath.Join(each.mount, cgroupRootPrefix+"*"))
		if err != nil {
			return nil, fmt.Errorf("looking for the cgroups of nodes: %w", err)
		}
		for _, path := range found {
			roots = append(roots, "/"+filepath.Base(path))
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots), nil
}

// emptyCgroups ends every process below the cluster's root except for some, until no other
// is left. It starts with the containers', so that their shims can reap them.
func emptyCgroups(ctx context.Context, root string, except []int) error {
	for _, below := range []string{filepath.Join(root, kubepodsCgroup), root} {
		if err := emptyCgroup(ctx, below, except); err != nil {
			return err
		}
	}
	return nil
}

func emptyCgroup(ctx context.Context, root string, except []int) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	err = poll(ctx, func(context.Context) (bool, error) {
		left := 0
		for _, each := range all {
			killed, failed := killBelow(each, root, except)
			if failed != nil {
				return false, failed
			}
			left += killed
		}
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("ending the processes in cgroup %s: %w", root, err)
	}
	return nil
}

func killBelow(tree hierarchy, root string, except []int) (killed int, err error) {
	pids, err := processesBelow(filepath.Join(tree.mount, root))
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		if slices.Contains(except, pid) {
			continue
		}
		killed++
		if err := killMember(pid, root); err != nil {
			return killed, err
		}
	}
	return killed, nil
}

func processesBelow(dir string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if gone(err) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(path, "cgroup.procs")) //nolint:gosec // a cgroup of the cluster
		if gone(err) {
			return nil
		}
		for field := range strings.FieldsSeq(string(content)) {
			if pid, malformed := strconv.Atoi(field); malformed == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for processes in %s: %w", dir, err)
	}
	return pids, nil
}

// gone reports whether a cgroup was removed while it was read.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// killMember ends a process if it is still in the cluster's cgroup, which it checks through
// a handle that keeps the process's identity.
func killMember(pid int, root string) error {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("finding process %d: %w", pid, err)
	}
	defer handle.Release() //nolint:errcheck // nothing follows from it
	groups, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil || !strings.Contains(string(groups), root+"/") {
		return nil // it has ended or is not ours any more
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending process %d: %w", pid, err)
	}
	return nil
}

// RemoveCgroups removes a group with all below it in every hierarchy, the innermost first; root is the path below
// the hierarchies. A group stays busy for a moment after its last process has ended.
func RemoveCgroups(ctx context.Context, root string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, each := range all {
		top := filepath.Join(each.mount, root)
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
