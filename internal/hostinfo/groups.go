package hostinfo

import (
	"errors"
	"regexp"
	"strings"

	"github.com/evictd/evictd/internal/wording"
)

// podGroup is in the path of a pod's cgroup, with both of the kubelet's cgroup drivers: pod, and the pod's UID or
// the hash of a static pod. In a cgroup namespace another container of evictd's own pod is beside the root.
const podGroup = `pod[0-9a-f]{8}[0-9a-f_-]{24,28}|^\.\./[^/]+$`

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
func unitOf(content string) (unit string, inPod bool, err error) {
	ofPod, lines := regexp.MustCompile(podGroup), 0
	for line := range strings.Lines(content) {
		_, group, found := strings.Cut(strings.TrimSuffix(line, "\n"), ":/")
		if !found {
			continue
		}
		lines++
		inPod = inPod || ofPod.MatchString(group)
		if name := nameIn(group); unit == "" || isUnit(name) && !isUnit(unit) { // a hierarchy of v1 may know no units
			unit = name
		}
	}
	if lines == 0 {
		err = errors.New("it has no cgroup")
	}
	return unit, inPod, err
}

// nameIn returns the name of the unit or container in a group's path: the outermost service or
// scope, because what runs in one may create more below it. Without one it returns the last name,
// which is the container's when a runtime creates its groups itself.
func nameIn(group string) string {
	unit := ""
	for name := range strings.SplitSeq(strings.TrimSuffix(group, " (deleted)"), "/") {
		if name != "" && name != ".." {
			unit = name
		}
		if isUnit(name) {
			break
		}
	}
	return clean(unit)
}

func isUnit(name string) bool {
	return strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope")
}

// nameMax bounds other people's names.
const nameMax = 64

// clean makes an untrusted name fit for a line: no control characters, 64 bytes at most.
func clean(name string) string { return wording.Shorten(wording.OneLine(name), nameMax) }
