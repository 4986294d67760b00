package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Traces are what a node must not leave behind on the machine.
type Traces struct {
	found   []string // mounts, loop devices, cgroups and folders
	sysctls map[string]string
}

// ReadTraces reads what there is now: before the first node starts, so that [Traces.Left] can compare.
func ReadTraces() (Traces, error) {
	var t Traces
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return !isNodes(m.Mountpoint), false })
	if err != nil {
		return t, fmt.Errorf("reading the mounts: %w", err)
	}
	for _, each := range mounts {
		t.found = append(t.found, "the mount "+each.Mountpoint)
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // the pattern is in order
	for _, path := range loops {
		if file, gone := os.ReadFile(path); gone == nil && isNodes(string(file)) { //nolint:gosec // a path that was found
			t.found = append(t.found, "the loop device of "+strings.TrimSpace(string(file)))
		}
	}
	groups, err := nodeCgroups()
	if err != nil {
		return t, err
	}
	for _, group := range groups {
		t.found = append(t.found, "the cgroup "+group)
	}
	for _, folder := range nodeFolders() {
		if _, missing := os.Stat(folder); missing == nil {
			t.found = append(t.found, "the folder "+folder)
		}
	}
	t.sysctls, err = sysctlsBefore()
	return t, err
}

// Left reads again, and returns an error that names what is there and was not, and each setting of the
// kernel that is another one.
func (t Traces) Left() error {
	now, err := ReadTraces()
	return errors.Join(err, now.since(t))
}

func (t Traces) since(before Traces) error {
	var left []error
	for _, each := range t.found {
		if !slices.Contains(before.found, each) {
			left = append(left, fmt.Errorf("a node has left %s", each))
		}
	}
	for name, value := range t.sysctls {
		if old := before.sysctls[name]; old != value {
			left = append(left, fmt.Errorf("a node has left the kernel's setting %s at %s, which was %s", name, value, old))
		}
	}
	return errors.Join(left...)
}

// nodeFolders are those that a kubelet and containerd use, and which the node has in its own mount
// namespace.
func nodeFolders() []string {
	return []string{
		kubeletRoot, containerdRoot, containerdState, "/var/log/pods", "/var/log/containers",
		"/etc/cni", "/opt/cni", "/opt/containerd", "/var/lib/cni",
	}
}

// isNodes reports whether a mount or a file is a node's: in one of its folders, or in a state folder of
// the tests, whose names begin with "evictd-".
func isNodes(path string) bool {
	return strings.Contains(path, "/evictd-") ||
		slices.ContainsFunc(nodeFolders(), func(folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") })
}
