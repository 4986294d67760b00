package usage

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/kernelfile"
)

// How deep FindKubepods searches: a kind node seen from its host is four levels deep,
// system.slice/docker-<id>.scope/kubelet.slice/kubelet-kubepods.slice.
const (
	findDepth       = 5
	findDirectories = 10_000
)

// FindKubepods returns the cgroup that holds all pods, relative to the cgroup mount and with
// a leading slash, as a kubelet made it: kubepods or kubepods.slice, also below another
// group (kind, k3s, --cgroup-root). Of several it returns the one nearest to the root, and
// of several equally near the one that has pods. When that is ambiguous, or there is none,
// the error tells the user to set --kubepods-cgroup.
func FindKubepods(mount string) (string, error) {
	h, err := kernelfile.HierarchyOf(mount)
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
			names, fault := subdirectories(filepath.Join(h.Memory, dir))
			if fault != nil {
				faults = append(faults, fmt.Errorf("looking for kubepods: %w", fault))
			}
			for _, name := range names {
				below = append(below, path.Join(dir, name))
			}
		}
		if found := slices.DeleteFunc(slices.Clone(below), notKubepods); len(found) > 0 {
			return choose(h.Memory, found)
		}
		level = below
	}
	err = fmt.Errorf("no kubepods cgroup in the %d levels below %s: is this a node with a kubelet? --kubepods-cgroup says where it is",
		findDepth, h.Memory)
	return "", errors.Join(append([]error{err}, faults...)...)
}

func notKubepods(group string) bool { return !isKubepods(path.Base(group)) }

// choose selects one of several kubepods cgroups that are equally near.
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

// subdirectories returns the names of the subdirectories of a directory, in order. A removed
// directory has none.
func subdirectories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
