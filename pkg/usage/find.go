package usage

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// hierarchy says where a node accounts for memory and tasks.
type hierarchy struct {
	unified bool   // cgroup v2
	memory  string // directory of the memory hierarchy
	pids    string // of the pids hierarchy; "" when it is not mounted
}

// hierarchyOf looks at a cgroup mount. One with both versions (hybrid) accounts for
// memory on v1.
func hierarchyOf(mount string) (hierarchy, error) {
	controllers, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers")) //nolint:gosec // the mount is the caller's
	switch {
	case err == nil && !slices.Contains(strings.Fields(string(controllers)), "memory"):
		return hierarchy{}, fmt.Errorf("the cgroups at %s do not account for memory: its controllers are %q", mount, controllers)
	case err == nil:
		return hierarchy{unified: true, memory: mount, pids: mount}, nil
	case !errors.Is(err, os.ErrNotExist):
		return hierarchy{}, fmt.Errorf("looking for cgroups: %w", err)
	}
	h := hierarchy{memory: filepath.Join(mount, "memory"), pids: filepath.Join(mount, "pids")}
	if _, err := os.Stat(filepath.Join(h.memory, "memory.stat")); err != nil {
		return hierarchy{}, fmt.Errorf("no cgroup accounts for memory below %s: neither cgroup.controllers (v2) nor memory/memory.stat (v1) is there: %w",
			mount, err)
	}
	if _, err := os.Stat(h.pids); err != nil {
		h.pids = ""
	}
	return h, nil
}

// How far FindKubepods looks: a kind node seen from its host is four levels deep,
// system.slice/docker-<id>.scope/kubelet.slice/kubelet-kubepods.slice.
const (
	findDepth       = 5
	findDirectories = 10_000
)

// FindKubepods returns the cgroup that holds all pods, relative to the cgroup mount
// and with a slash before it, as a kubelet made it: kubepods or kubepods.slice,
// also below another group (kind, k3s, --cgroup-root). Of several it takes the one
// nearest to the root, and of several equally near the one that has pods; an error
// asks for --kubepods-cgroup when that does not settle it, or when there is none.
func FindKubepods(mount string) (string, error) {
	h, err := hierarchyOf(mount)
	if err != nil {
		return "", err
	}
	level, visited := []string{"/"}, 0
	var faults []error
	for range findDepth {
		var below []string
		for _, dir := range level {
			if visited++; visited > findDirectories {
				break
			}
			names, fault := subdirectories(filepath.Join(h.memory, dir))
			if fault != nil {
				faults = append(faults, fault)
			}
			for _, name := range names {
				below = append(below, path.Join(dir, name))
			}
		}
		if found := slices.DeleteFunc(slices.Clone(below), notKubepods); len(found) > 0 {
			return choose(h.memory, found)
		}
		level = below
	}
	err = fmt.Errorf("no kubepods cgroup in the %d levels below %s: is this a node with a kubelet? --kubepods-cgroup says where it is",
		findDepth, h.memory)
	return "", errors.Join(append([]error{err}, faults...)...)
}

func notKubepods(group string) bool { return !isKubepods(path.Base(group)) }

// choose settles on one of several kubepods cgroups that are equally near.
func choose(root string, found []string) (string, error) {
	if len(found) == 1 {
		return found[0], nil
	}
	slices.Sort(found)
	var populated []string
	for _, kubepods := range found {
		if hasPods(root, kubepods) {
			populated = append(populated, kubepods)
		}
	}
	if len(populated) == 1 {
		return populated[0], nil
	}
	return "", fmt.Errorf("several kubepods cgroups below %s: %s, of which %d have pods; --kubepods-cgroup says which one it is",
		root, strings.Join(found, ", "), len(populated))
}

func hasPods(root, kubepods string) bool {
	for _, c := range classesOf(kubepods) {
		names, err := subdirectories(filepath.Join(root, kubepods, c.dir))
		if err == nil && slices.ContainsFunc(names, func(name string) bool { return c.holds([]byte(name)) }) {
			return true
		}
	}
	return false
}

// subdirectories returns the names of the directories in a directory, in order. One
// that has gone has none.
func subdirectories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for kubepods: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
