package agent

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Taints keeps taints of evictd's own on the node.
type Taints interface {
	// Settled waits until the node carries them; an error says why it does not yet.
	Settled(ctx context.Context) error
	// Want says what the node should carry from now on. It does not wait.
	Want(w taint.Wanted)
}

// Recorder turns what happened into log lines, events and metrics.
type Recorder interface {
	// Sample takes each sample, before anything is decided by it.
	Sample(sample *pressure.Sample, verdict *pressure.Verdict)
	Tick(started time.Time, took time.Duration)
	Intent(d *decide.Decision, a *decide.Attempt)
	// Decision takes each decision, also one to hold that is made again at each tick.
	Decision(d *decide.Decision)
	// Likely takes, once for an incident, the decision that would evict a pod were the soft threshold's grace period
	// over, and the pod that would be the first.
	Likely(d *decide.Decision, first *decide.Attempt)
	// Ledger reports at each tick what is in flight, and how many pods are in back-off because a budget
	// refused, or because several budgets select them.
	Ledger(now time.Time, bookings []decide.Victim, blocked, misconfigured int)
	// Failed reports a reading that failed, by its source.
	Failed(source string, err error)
	// Acting reports whether the agent acts, at the start and after each change.
	Acting(s acting.State)
	// Incidents reports each shortage that began, and each that is over.
	Incidents(began, ended []incident.Incident)
	// VictimEnded reports each victim that evictd evicted once it has ended.
	VictimEnded(e *decide.Ended)
}

// Pods knows the node's pods.
type Pods interface {
	inflight.Pods
	// Stale returns why a list that was complete can no longer be relied on; nil while it can.
	Stale() error
}

// Options are the agent's parts. All must be set, except where a field says what nil means.
type Options struct {
	Policy Policy
	// Sample reads the node. The sample's time is the argument: the moment just before the reading.
	Sample   func(now time.Time) pressure.Sample
	Pods     Pods
	Measure  measure.Options
	Evictor  execute.Evictor
	Recorder Recorder
	Taints   Taints
	// Acting makes the loop ask Policy.Acting at once; nil asks at each tick alone.
	Acting <-chan struct{}
	// Wake makes the loop take a sample at once, but never sooner after the last one
	// than Pacing.Min: the kernel's pressure-stall triggers. A channel that holds one
	// value loses no wake-up that comes during a tick. Nil means pacing alone.
	Wake <-chan struct{}
	// OOMKills returns how many processes the kernel has killed for want of memory since
	// boot.
	OOMKills func() (int64, error)
	// KubeletGap returns how much less memory.available is by the kubelet's definition than
	// by the kernel's, in bytes: active page cache, mostly. It may be a second old; 0 means that
	// this is not known.
	KubeletGap func(now time.Time) int64
	// Save keeps a [State] for the next process, in place of the one before; it is not changed any more.
	// Save does not wait; what it returns waits until the state is kept, for a bounded moment.
	Save func(state any) (kept func())
	// Keep takes what the loop knows, each second, for the record. It does not wait; nil keeps nothing.
	Keep func(*status.Document)
	// Remembered is what was kept of the previous process. It is nil when nothing is known of the time before
	// the start, and then the start is a careful one. The zero State says that there was
	// nothing to keep.
	Remembered *State
	// Held reads the details of a pod's cgroup, on the executor's goroutine; nil with an error when
	// they are not known.
	Held func(uid string) (usage.Detail, error)
	// Random returns numbers in [0,1), for jitter.
	Random func() float64
}

// Policy is what the configuration sets for the agent. It is replaced as a whole when the file
// changes.
type Policy struct {
	// Policy is what the configuration sets for each decision.
	decide.Policy

	// Transition is how long a signal stays reported as under pressure after its
	// last threshold was met.
	Transition time.Duration
	// Pacing bounds the time between two samples.
	Pacing pressure.Pacing
	// Limits bounds how many pods may be evicted in a time: the last guard against a wrong threshold or a
	// workload that always comes back. A limit of 0 is none.
	Limits config.Limits
	// Acting returns whether the agent acts: what it says replaces DryRun. It must be set.
	Acting func() acting.State
	// Kubelet is the kubelet's configuration, or its default: when it removes images that no pod uses, see
	// docs/runbook.md. By the zero value it never does.
	Kubelet kubeletconfig.Configuration
}
