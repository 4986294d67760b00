package hostinfo

import (
	"errors"
	"regexp"
	"strings"

	"github.com/evictd/evictd/internal/wording"
)

// Patterns of a /proc/<pid>/cgroup, of a whole one: a hierarchy of v1 may know no units, or no pods.
const (
	// podGroup is in that of a pod's process, with both of the kubelet's cgroup drivers: pod, and the pod's UID or
	// the hash of a static pod. In a cgroup namespace another container of evictd's own pod is beside the root.
	podGroup = `pod[0-9a-f]{8}[0-9a-f_-]{24,28}|:/\.\./[^/\n]+\n`
	// unit is the outermost service or scope, because what runs in one may create more below it.
	unit = `/([^/\n]+\.(?:service|scope))(?:/|\n| \(deleted\)\n)`
	// lastName is the container's when a runtime creates its groups itself.
	lastName = `/(\.?[^/.\n][^/\n]*?)(?: \(deleted\))?\n`
)

// unitOf returns the unit or container that a process is in, from its /proc/<pid>/cgroup, and whether that is a
// pod's. There is one line on cgroup v2, and one for each hierarchy on v1, of which some may have only the root,
//
//	0::/system.slice/containerd.service
//	4:memory:/system.slice/containerd.service
//
// On cgroup v2 a container usually has a cgroup namespace: the kernel shows each path relative to the group of
// evictd's own container,
//
//	0::/../../kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope
//	0::/../../../../system.slice/containerd.service
func unitOf(content string) (name string, inPod bool, err error) {
	if !strings.Contains(content, ":/") {
		err = errors.New("it has no cgroup")
	}
	for _, pattern := range []string{lastName, unit} {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(content); found != nil {
			name = clean(found[1])
		}
	}
	return name, regexp.MustCompile(podGroup).MatchString(content), err
}

// nameMax bounds other people's names.
const nameMax = 64

// clean makes an untrusted name fit for a line: no control characters, 64 bytes at most.
func clean(name string) string { return wording.Shorten(wording.OneLine(name), nameMax) }
