package agent

import (
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Policy is what the configuration asks of the agent. It is replaced as a whole
// when the file changes.
type Policy struct {
	// DryRun sends every eviction as a server-side dry run.
	DryRun bool
	// Thresholds are the lines the signals should not fall below.
	Thresholds []pressure.Threshold
	// MemoryAvailable is how memory.available is measured; what a victim's end
	// should free is booked in the same measure.
	MemoryAvailable pressure.MemoryDefinition
	// Transition is how long a signal stays reported as under pressure after its
	// last threshold was met.
	Transition time.Duration
	// CutGrace ends a soft threshold's grace period early when the hard one is
	// forecast to be met before it ends.
	CutGrace bool
	// Pacing bounds the time between two samples.
	Pacing pressure.Pacing
	// Rules are the protections the administrator chose.
	Rules rank.Rules
	// WithinRequests says when a pod that does not exceed its request is a candidate, see
	// withinrequests.go.
	WithinRequests decide.WithinRequests
	// KubeletHard are the kubelet's own hard thresholds, before which pods within their
	// requests go; nil where its configuration is not known.
	KubeletHard []pressure.Threshold
	// SoftGrace and HardGrace cap the pods' own grace periods, in seconds, for soft
	// and hard evictions; 0 leaves the pod its own.
	SoftGrace, HardGrace int64
	// BestEffort lets a pod go past its PodDisruptionBudget under hard pressure, see
	// docs/adr/0013.
	BestEffort bool
	// Limits bounds how many pods may be evicted in a time.
	Limits cooldown.Limits
	// Settle is how long space gets to come back by itself before anybody is evicted for
	// a disk, see settle.go; 0 is off.
	Settle time.Duration
	// ImageReclaim is when the kubelet removes images that no pod uses, see docs/adr/0010.
	ImageReclaim measure.ImageReclaim
	// MinimumRelease is the share of what is missing that a victim should return, see
	// useless.go; the zero value judges nobody by it.
	MinimumRelease pressure.Quantity
	// TaintNode keeps a taint of evictd's own on the node while it is under pressure.
	TaintNode bool
	// SlotsPerWorkload is how many pods of one workload may be on their way out at once,
	// on all nodes together; 0 means no such limit.
	SlotsPerWorkload int
}

// graceCap returns the cap of a grace period, in seconds; 0 is none.
func (p *Policy) graceCap(hard bool) int64 {
	if hard {
		return p.HardGrace
	}
	return p.SoftGrace
}

// grace returns the grace period to ask for in a decision, in seconds; nil is the pod's own.
func (p *Policy) grace(d *decide.Decision, pod *rank.Pod) *int64 {
	return decide.CapGrace(p.graceCap(d.Pressure.Threshold.Hard), pod)
}
