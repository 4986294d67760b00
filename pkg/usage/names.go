package usage

import (
	"bytes"
	"path"
	"strings"
)

// class is a directory of pods below the kubepods cgroup. Guaranteed pods have no class
// directory: they are in kubepods itself.
type class struct {
	dir    string // relative to kubepods; "" for kubepods itself
	prefix string // of a pod's cgroup, before its UID
	suffix string

	path string               // in a Tree's memory hierarchy
	pods map[string]*podFiles // that the Tree knows, by the names of their cgroups
}

// classesOf returns the classes of a kubepods cgroup. The kubelet's systemd driver repeats
// a slice's parents in its name, and writes the dashes of a UID as underscores
// (pkg/kubelet/cm/cgroup_manager_linux.go):
//
//	cgroupfs  kubepods/burstable/pod<uid>
//	systemd   kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice
//	          kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod<uid>.slice
func classesOf(kubepods string) [3]class {
	const slice = ".slice"
	name, systemd := strings.CutSuffix(path.Base(kubepods), slice)
	if !systemd {
		return [3]class{{prefix: "pod"}, {dir: "burstable", prefix: "pod"}, {dir: "besteffort", prefix: "pod"}}
	}
	return [3]class{
		{prefix: name + "-pod", suffix: slice},
		{dir: name + "-burstable" + slice, prefix: name + "-burstable-pod", suffix: slice},
		{dir: name + "-besteffort" + slice, prefix: name + "-besteffort-pod", suffix: slice},
	}
}

// holds reports whether a directory of that name is a pod's cgroup.
func (c *class) holds(name []byte) bool {
	return len(name) > len(c.prefix)+len(c.suffix) &&
		string(name[:len(c.prefix)]) == c.prefix &&
		bytes.HasSuffix(name, []byte(c.suffix))
}

// uid returns the UID in the name of a pod's cgroup.
func (c *class) uid(name string) string {
	uid := name[len(c.prefix) : len(name)-len(c.suffix)]
	if c.suffix != "" {
		uid = strings.ReplaceAll(uid, "_", "-")
	}
	return uid
}

// name returns the name of the pod's cgroup.
func (c *class) name(uid string) string {
	if c.suffix != "" {
		uid = strings.ReplaceAll(uid, "-", "_")
	}
	return c.prefix + uid + c.suffix
}

// isKubepods reports whether a kubelet may have given this name to the cgroup of all its
// pods.
func isKubepods(name string) bool {
	return name == "kubepods" || name == "kubepods.slice" || strings.HasSuffix(name, "-kubepods.slice")
}
