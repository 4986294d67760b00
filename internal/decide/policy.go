package decide

import (
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Policy is what the configuration sets for a decision.
type Policy struct {
	// DryRun sends every eviction as a server-side dry run.
	DryRun bool
	// DryRunWhy says why, in one clause; "" where that is not known.
	DryRunWhy string
	// Thresholds are the lines the signals should not fall below.
	Thresholds []pressure.Threshold
	// MemoryAvailable is how memory.available is measured; what a victim's end
	// should free is booked in the same measure.
	MemoryAvailable pressure.MemoryDefinition
	// Rules are the protections the administrator chose.
	Rules rank.Rules
	// WithinRequests says when a pod that does not exceed its request is a candidate.
	WithinRequests WithinRequests
	// KubeletHard are the kubelet's own hard thresholds, before which pods within their
	// requests are evicted; nil where its configuration is not known.
	KubeletHard []pressure.Threshold
	// SoftGrace and HardGrace cap the pods' own grace periods, in seconds, for soft
	// and hard evictions; 0 leaves the pod its own.
	SoftGrace, HardGrace int64
	// OverdueGrace is the grace period, in seconds, that a victim of evictd's own gets under hard
	// pressure when it is overdue, unless HardGrace is smaller; 0 leaves it what it has.
	OverdueGrace int64
	// BestEffort lets one pod bypass its PodDisruptionBudget under hard pressure, see
	// docs/adr/0013.
	BestEffort bool
	// TaintNode keeps a taint of evictd's own on the node while it is under pressure. TaintSoft begins with one that
	// the scheduler may disregard, until a threshold holds.
	TaintNode, TaintSoft bool
}

// grace returns the grace period for the request to evict a pod, in seconds: what is configured where
// that is shorter than the pod's own, else nil, which is the pod's own. It never lengthens.
func (p *Policy) grace(hard bool, pod *rank.Pod) *int64 {
	limit := p.SoftGrace
	if hard {
		limit = p.HardGrace
	}
	if limit <= 0 || limit >= pod.GraceSeconds {
		return nil
	}
	return &limit
}

// overdueGrace returns the grace period of an overdue victim, in seconds.
func (p *Policy) overdueGrace() int64 {
	if p.HardGrace > 0 {
		return min(p.HardGrace, p.OverdueGrace)
	}
	return p.OverdueGrace
}

// KubeletLine returns the threshold at which the kubelet evicts at once, in evictd's measure of the
// signal; 0 when that is not known. Gap returns by how much memory.available is less by the kubelet's
// definition than by the kernel's, in bytes; it is read only where the two differ.
func (p *Policy) KubeletLine(signal pressure.Signal, capacity int64, gap func() int64) (line int64) {
	theirs, has := signal.Kubelets()
	for i := range p.KubeletHard {
		if t := &p.KubeletHard[i]; has && t.Signal == theirs {
			line = max(line, t.Quantity.Of(capacity))
		}
	}
	if line == 0 || signal != pressure.MemoryAvailable || p.MemoryAvailable == pressure.WorkingSet {
		return line
	}
	return max(0, line+gap())
}
