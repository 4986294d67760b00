package hostinfo

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/wording"
)

// namespace turns the paths that /proc/<pid>/cgroup shows into those below the cgroup mount.
// They differ on cgroup v2, where a container usually has a cgroup namespace: the kernel
// shows each path relative to the group of evictd's own container,
//
//	/../../kubepods-burstable-pod1234.slice/cri-containerd-<id>.scope
//	/../../../../system.slice/containerd.service
type namespace struct{ own, kubepods string }

// groups finds evictd's own group out. The host's first process is in the root or next to
// it, so that its path climbs out of the whole namespace. Only evictd's own ancestors have
// no names there, and they are the pods' cgroup and what is below it: it runs in a pod, or
// in the host's own namespace.
func (r *Reader) groups() (namespace, error) {
	content, err := r.readOf(1, "cgroup")
	if err != nil {
		return namespace{}, err
	}
	first, _, err := groupsIn(content)
	if err != nil {
		return namespace{}, fmt.Errorf("process 1: %w", err)
	}
	n := namespace{own: "/", kubepods: r.kubepods}
	depth := strings.Count(first+"/", "../")
	if above := strings.Count(n.kubepods, "/"); depth >= above {
		n.own, depth = n.kubepods, depth-above
	}
	n.own = path.Join(n.own, strings.Repeat("own/", depth))
	return n, nil
}

// inPods reports whether a group that a process is in lies below the pods' cgroup, or is it.
func (n namespace) inPods(group string) bool {
	return n.kubepods != "/" && strings.HasPrefix(path.Join(n.own, group)+"/", n.kubepods+"/")
}

// groupsIn returns the group that accounts for a process's memory and the one that systemd
// keeps it in, from a /proc/<pid>/cgroup: one line on cgroup v2, one for each hierarchy on
// v1, and both on hybrid nodes, where memory is on v1,
//
//	0::/system.slice/containerd.service
//	4:memory:/system.slice/containerd.service
//	1:name=systemd:/system.slice/containerd.service
func groupsIn(content string) (memory, systemd string, err error) {
	var unified string
	for line := range strings.Lines(content) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case !strings.HasPrefix(group, "/"):
		case controllers == "":
			unified = group
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			memory = group
		case controllers == "name=systemd":
			systemd = group
		}
	}
	if memory, systemd = cmp.Or(memory, unified), cmp.Or(systemd, unified); memory == "" {
		err = errors.New("the process has no entry for a memory cgroup")
	}
	return memory, systemd, err
}

// unitOf returns the name of the unit or container in a group's path: the outermost service or
// scope, because what runs in one may create more below it. Without one it returns the last name,
// which is the container's when a runtime creates its groups itself.
func unitOf(group string) string {
	unit := ""
	for name := range strings.SplitSeq(strings.TrimSuffix(group, " (deleted)"), "/") {
		if name != "" && name != ".." {
			unit = name
		}
		if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
			break
		}
	}
	return clean(unit)
}

// nameMax bounds other people's names.
const nameMax = 64

// clean makes an untrusted name fit for a line: no control characters, 64 bytes at most.
func clean(name string) string {
	name = wording.OneLine(strings.ToValidUTF8(name, "?"))
	if len(name) > nameMax {
		name = strings.ToValidUTF8(name[:nameMax], "")
	}
	return name
}
