package parity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kuberesource "k8s.io/kubernetes/pkg/api/v1/resource"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// This file holds the rules of the named differences: which pods evictd protects, and what
// the kubelet counts differently.

// reasons returns why evictd may not evict a pod, with the name of each difference, "" where
// the kubelet does not evict it either.
func (s *State) reasons(p *Pod, signal pressure.Signal) map[rank.Protection]Difference {
	reasons := map[rank.Protection]Difference{}
	add := func(holds bool, reason rank.Protection, d Difference) {
		if holds {
			reasons[reason] = d
		}
	}
	add(p.Name == s.Self, rank.ProtectedSelf, EvictdItself)
	add(p.Kind == Static, rank.ProtectedMirrorPod, "")
	add(p.critical() && p.Kind != Static, rank.ProtectedSystemCritical, "")
	add(p.Terminating, rank.ProtectedTerminating, Terminating)
	add(!p.active(), rank.ProtectedFinished, "")
	add(s.Protect.DaemonSets && p.Kind == Daemon, rank.ProtectedDaemonSet, DaemonSetPod)
	add(s.Protect.BarePods && p.Kind == Bare, rank.ProtectedNoController, BarePod)
	// From 2000000000 on it is not the administrator's choice.
	add(!p.critical() && p.priority() >= s.Protect.PriorityAtLeast, rank.ProtectedPriority, ProtectedPriority)
	add(slices.Contains(s.Protect.Namespaces, p.Namespace), rank.ProtectedNamespace, ProtectedNamespace)
	add(s.Protect.PodSelector.MatchLabels != nil && p.Label["keep"] == "me", rank.ProtectedPodSelector, ProtectedSelector)
	add(p.Unsampled, rank.ProtectedNoUsageSample, NoSample)
	add(!p.Unsampled && !s.measured(p, signal), rank.ProtectedNoUsageSample, MissingFigure)
	return reasons
}

// measured reports whether every figure of the pod exists.
func (s *State) measured(p *Pod, signal pressure.Signal) bool {
	if isMemory(signal) || signal == pressure.PIDAvailable {
		return p.Memory != nil && (isMemory(signal) || p.Tasks != nil)
	}
	return s.diskMeasured(p, signal)
}

func (s *State) diskMeasured(p *Pod, signal pressure.Signal) bool {
	layers, rest := s.counts(signal)
	running := false
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role == Init {
			continue
		}
		running = true
		if layers && c.Rootfs == nil || rest && c.Logs == nil {
			return false
		}
	}
	return running && !slices.ContainsFunc(p.Volumes, func(v Volume) bool { return rest && v.local() && v.Disk == nil })
}

// counts returns what both count to a filesystem: writable layers, or logs and volumes, or
// both, or neither.
func (s *State) counts(signal pressure.Signal) (layers, rest bool) {
	images := signal == pressure.ImageFSAvailable || signal == pressure.ImageFSInodesFree
	switch s.Layout {
	case ImageFS:
		return images, !images
	case SplitFS:
		return !images, !images
	default:
		return true, true
	}
}

// local reports whether both count the volume to the pod.
func (v *Volume) local() bool {
	return v.Kind == "emptyDir" || v.Kind == "configMap" || v.Kind == "gitRepo"
}

// fractional reports whether the pod requests a part of a byte, which evictd rounds up and
// the kubelet does not.
func (p *Pod) fractional(signal pressure.Signal) bool {
	name := corev1.ResourceMemory
	switch {
	case signal == pressure.PIDAvailable:
		return false
	case !isMemory(signal):
		name = corev1.ResourceEphemeralStorage
	}
	request := kuberesource.GetResourceRequestQuantity(p.finished(), name)
	return request.CmpInt64(request.Value()) != 0
}

// asks returns the pod's request as the kubelet computes it, for a resource that can be
// requested.
func (p *Pod) asks(signal pressure.Signal) (amount int64, asks bool) {
	switch {
	case isMemory(signal):
		return asked(p.finished(), corev1.ResourceMemory), true
	case signal != pressure.PIDAvailable && signal.Unit() == pressure.Bytes:
		return asked(p.finished(), corev1.ResourceEphemeralStorage), true
	default:
		return 0, false
	}
}

// change is how the kubelet's count of a pod's usage and request differs.
type change struct{ usage, request int64 }

// changes returns the counting rules that the kubelet has and evictd does not.
func (s *State) changes(p *Pod, signal pressure.Signal) map[Difference]change {
	changes := map[Difference]change{}
	add := func(d Difference, c change) {
		if c != (change{}) {
			changes[d] = c
		}
	}
	switch {
	case isMemory(signal):
	case signal == pressure.PIDAvailable:
		add(Tasks, change{usage: *p.Processes - *p.Tasks})
	default:
		inodes := signal.Unit() == pressure.Inodes
		if inodes {
			add(InodeRequest, change{request: asked(p.finished(), corev1.ResourceEphemeralStorage)})
		}
		images := signal == pressure.ImageFSAvailable || signal == pressure.ImageFSInodesFree
		if s.Layout == OneFS || !images {
			add(HostPath, change{usage: p.hostPaths(inodes)})
		}
	}
	return changes
}

func (p *Pod) hostPaths(inodes bool) int64 {
	total := int64(0)
	for i := range p.Volumes {
		if v := &p.Volumes[i]; v.Kind == "hostPath" {
			total += v.Disk.of(inodes)
		}
	}
	return total
}

func (d *Disk) of(inodes bool) int64 {
	switch {
	case d == nil:
		return 0
	case inodes:
		return d.Inodes
	default:
		return d.Bytes
	}
}
