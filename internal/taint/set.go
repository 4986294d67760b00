package taint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/pkg/pressure"
)

// Set is a set of evictd's own taints; the zero value is none.
type Set uint8

// The pressures, as the kubelet groups its signals into node conditions. Each stands for its taint with the
// effect NoSchedule.
const (
	Memory Set = 1 << iota
	Disk
	PIDs
)

// Preferring returns the taints of these pressures with the effect PreferNoSchedule in place of NoSchedule.
func (s Set) Preferring() Set { return s << len(keys()) }

// keys are the keys of the taints, in the order of the pressures. The names are those of the kubelet's
// own taints below another prefix, so that they cannot be confused and evictd never touches the kubelet's.
func keys() []string {
	return []string{"evictd.dev/memory-pressure", "evictd.dev/disk-pressure", "evictd.dev/pid-pressure"}
}

// own are all that a set can hold, in the order of its bits.
func own() (all []corev1.Taint) {
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule} {
		for _, key := range keys() {
			all = append(all, corev1.Taint{Key: key, Effect: effect})
		}
	}
	return all
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

// taints returns the taints of the set, nil for none.
func (s Set) taints() (some []corev1.Taint) {
	for i, t := range own() {
		if s&(1<<i) != 0 {
			some = append(some, t)
		}
	}
	return some
}

// Keys returns the keys of the set's taints, nil for none, with the effect after those that have PreferNoSchedule.
func (s Set) Keys() (some []string) {
	for _, t := range s.taints() {
		if t.Effect != corev1.TaintEffectNoSchedule {
			t.Key += ":" + string(t.Effect)
		}
		some = append(some, t.Key)
	}
	return some
}

// on returns evictd's own taints among those of a node. A taint with the same key and the effect NoExecute is
// not evictd's.
func on(taints ...corev1.Taint) (found Set) {
	for i, t := range own() {
		if slices.ContainsFunc(taints, func(other corev1.Taint) bool { return t.MatchTaint(&other) }) {
			found |= 1 << i
		}
	}
	return found
}

// with returns a node's taints with evictd's own as the set says and all others as they
// are, in their order.
func with(before []corev1.Taint, set Set) []corev1.Taint {
	after := slices.DeleteFunc(slices.Clone(before), func(t corev1.Taint) bool { return on(t)&^set != 0 })
	return append(after, (set &^ on(before...)).taints()...)
}
