package taint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/pkg/pressure"
)

// Set is a set of pressures a node can carry a taint for; the zero value is none.
type Set uint8

// The pressures, as the kubelet groups its signals into node conditions.
const (
	Memory Set = 1 << iota
	Disk
	PIDs
)

// taints are the pressures with the keys of their taints, in the order in which they are written.
// The names are those of the kubelet's own taints below another prefix, so that they cannot be
// confused and evictd never touches the kubelet's.
func taints() []struct {
	pressure Set
	key      string
} {
	return []struct {
		pressure Set
		key      string
	}{
		{Memory, "evictd.dev/memory-pressure"},
		{Disk, "evictd.dev/disk-pressure"},
		{PIDs, "evictd.dev/pid-pressure"},
	}
}

// Of returns the pressure that a signal stands for.
func Of(signal pressure.Signal) Set {
	return [...]Set{
		pressure.MemoryKind: Memory,
		pressure.PIDKind:    PIDs,
		pressure.SpaceKind:  Disk,
		pressure.InodeKind:  Disk,
	}[signal.Kind()]
}

// Keys returns the keys of the set's taints, nil for none.
func (s Set) Keys() []string {
	var keys []string
	for _, t := range taints() {
		if s&t.pressure != 0 {
			keys = append(keys, t.key)
		}
	}
	return keys
}

// All is every pressure.
const All = Memory | Disk | PIDs

// on returns the pressures whose taint a node carries. A taint with the same key and another effect
// is not evictd's.
func on(node *corev1.Node) Set {
	var found Set
	for i := range node.Spec.Taints {
		found |= own(&node.Spec.Taints[i])
	}
	return found
}

// own returns the pressure of a taint of evictd's own; none for any other taint.
func own(t *corev1.Taint) Set {
	if t.Effect != corev1.TaintEffectNoSchedule {
		return 0
	}
	for _, one := range taints() {
		if one.key == t.Key {
			return one.pressure
		}
	}
	return 0
}

// with returns a node's taints with evictd's own as the set says and all others as they
// are, in their order.
func with(before []corev1.Taint, set Set) []corev1.Taint {
	after := slices.DeleteFunc(slices.Clone(before), func(t corev1.Taint) bool {
		return own(&t)&^set != 0
	})
	missing := set &^ on(&corev1.Node{Spec: corev1.NodeSpec{Taints: before}})
	for _, key := range missing.Keys() {
		after = append(after, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	return after
}
