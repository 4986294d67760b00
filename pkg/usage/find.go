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

// findDepth is how deep FindKubepods searches: a kind node seen from its host is four levels deep,
// system.slice/docker-<id>.scope/kubelet.slice/kubelet-kubepods.slice.
const findDepth = 5

// FindKubepods returns the cgroup that holds all pods, relative to the cgroup mount and with
// a leading slash, as a kubelet made it: kubepods or kubepods.slice, also below another
// group (kind, k3s, --cgroup-root). Of several it returns the one that holds the pod with the
// UID own, which may be "", else the one nearest to the root that has pods, else the nearest.
// When that is ambiguous, or there is none, the error tells the user to set --kubepods-cgroup.
func FindKubepods(mount, own string) (string, error) {
	h, err := kernelfile.HierarchyOf(mount)
	if err != nil {
		return "", err
	}
	found, faults := kubepodsBelow(h.Memory)
	if len(found) == 0 {
		err = fmt.Errorf("no kubepods cgroup in the %d levels below %s: is this a node with a kubelet? --kubepods-cgroup says where it is",
			findDepth, h.Memory)
		return "", errors.Join(append([]error{err}, faults...)...)
	}
	populated := slices.DeleteFunc(slices.Clone(found), func(group string) bool { return !hasPod(h.Memory, group, "") })
	for _, group := range populated {
		if own != "" && hasPod(h.Memory, group, own) {
			return group, nil
		}
	}
	if len(populated) > 0 {
		found = populated
	}
	found = slices.DeleteFunc(found, func(group string) bool { return strings.Count(group, "/") > strings.Count(found[0], "/") })
	if len(found) == 1 {
		return found[0], nil
	}
	return "", fmt.Errorf("several kubepods cgroups below %s: %s, of which %d have pods; --kubepods-cgroup says which one it is",
		h.Memory, strings.Join(found, ", "), min(len(found), len(populated)))
}

// kubepodsBelow returns the kubepods cgroups, the nearest to the root first, and what kept
// directories from being searched.
func kubepodsBelow(root string) (found []string, faults []error) {
	level := []string{"/"}
	for range findDepth {
		var below []string
		for _, dir := range level {
			names, fault := subdirectories(filepath.Join(root, dir))
			if fault != nil {
				faults = append(faults, fmt.Errorf("looking for kubepods: %w", fault))
			}
			for _, name := range names {
				into := &below
				if isKubepods(name) {
					into = &found
				}
				*into = append(*into, path.Join(dir, name))
			}
		}
		level = below
	}
	return found, faults
}

// hasPod reports whether a kubepods cgroup has the pod with that UID, or any where it is "".
func hasPod(root, kubepods, uid string) bool {
	for _, c := range classesOf(kubepods) {
		names, _ := subdirectories(filepath.Join(root, kubepods, c.dir)) // what cannot be read is not known to have one
		if slices.ContainsFunc(names, func(name string) bool { return c.holds([]byte(name)) && (uid == "" || c.uid(name) == uid) }) {
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
