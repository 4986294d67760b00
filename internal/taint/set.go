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

// keys are the keys of the taints, in the order of the pressures. The names are those of the kubelet's
// own taints below another prefix, so that they cannot be confused and evictd never touches the kubelet's.
func keys() []string {
	return []string{"evictd.dev/memory-pressure", "evictd.dev/disk-pressure", "evictd.dev/pid-pressure"}
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
	var some []string
	for i, key := range keys() {
		if s&(1<<i) != 0 {
			some = append(some, key)
		}
	}
	return some
}

// on returns the pressures of evictd's own taints among those of a node. A taint with the same key and
// another effect is not evictd's.
func on(taints ...corev1.Taint) Set {
	var found Set
	for i := range taints {
		if at := slices.Index(keys(), taints[i].Key); at >= 0 && taints[i].Effect == corev1.TaintEffectNoSchedule {
			found |= 1 << at
		}
	}
	return found
}

// with returns a node's taints with evictd's own as the set says and all others as they
// are, in their order.
func with(before []corev1.Taint, set Set) []corev1.Taint {
	after := slices.DeleteFunc(slices.Clone(before), func(t corev1.Taint) bool { return on(t)&^set != 0 })
	for _, key := range (set &^ on(before...)).Keys() {
		after = append(after, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	return after
}
