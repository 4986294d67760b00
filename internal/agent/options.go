package agent

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/decisions"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Sampler reads the node. The sample's time is the argument: the moment just
// before the reading.
type Sampler interface {
	Sample(now time.Time) pressure.Sample
}

// Pods knows the node's pods.
type Pods interface {
	// Synced reports whether the list is complete.
	Synced() bool
	// List returns the pods; it sends no request.
	List() []*nodepods.Pod
}

// Taints keeps taints of evictd's own on the node.
type Taints interface {
	// Want says what the node should carry from now on. It does not wait.
	Want(w taint.Wanted)
	// Settled waits until the node carries it; an error says why it does not yet.
	Settled(ctx context.Context) error
}

// Permits limits how many pods of one workload are in flight at once, on all nodes together.
type Permits interface {
	// Acquire acquires a permit for a pod before its eviction is requested.
	Acquire(ctx context.Context, r permits.Request) permits.Answer
	// Release releases the permit of a pod that stays. It does not wait.
	Release(uid string)
	// ReleaseEnded releases the permits of pods that are not there any more, and keeps those of
	// pods that are terminating. It does not wait.
	ReleaseEnded(there, leaving func(uid string) bool)
}

// Recorder turns what happened into log lines, events and metrics.
type Recorder interface {
	Sample(sample *pressure.Sample, verdict *pressure.Verdict)
	Tick(started time.Time, took time.Duration)
	Intent(d *decide.Decision, a *decide.Attempt)
	Decision(d *decide.Decision)
	Ledger(now time.Time, bookings []inflight.Booking)
	ReadError(source string, err error)
	// IncidentBegan and IncidentEnded report each shortage, once.
	IncidentBegan(i *incident.Incident)
	IncidentEnded(i *incident.Incident)
	// VictimEnded reports each victim that evictd evicted once it has ended.
	VictimEnded(e *inflight.Ended)
	// LeftAlone reports at each tick how many owners are in back-off, and how many pods are because
	// a budget refused or because several budgets select them.
	LeftAlone(owners, blocked, misconfigured int)
}

// Options are the agent's parts. All must be set, except: Disk, without which disk pressure evicts
// no pod; Images, without which no pod waits for unused images; Wake, without which only pacing
// wakes the loop; KubeletGap; and Taints and Permits, which are not used when nil, whatever the
// policy says.
type Options struct {
	Policy   Policy
	Self     nodepods.Self
	Sampler  Sampler
	Pods     Pods
	Cgroups  measure.Cgroups
	Disk     measure.Disk
	Images   measure.Images
	Evictor  execute.Evictor
	Recorder Recorder
	Taints   Taints
	Permits  Permits
	// Host may be nil: then no decision contains the memory use outside the pods.
	Host decisions.Host
	// Wake makes the loop take a sample at once, but never sooner after the last one
	// than Pacing.Min: the kernel's pressure-stall triggers. A channel that holds one
	// value loses no wake-up that comes during a tick. Nil means pacing alone.
	Wake <-chan struct{}
	// PodsStale returns why the list of pods, once complete, can no longer be relied on; nil while
	// it can. A nil function reports nothing.
	PodsStale func() error
	// OOMKills returns how many processes the kernel has killed for want of memory since
	// boot; nil where that cannot be read.
	OOMKills func() (int64, error)
	// KubeletGap returns how much less memory.available is by the kubelet's definition than
	// by the kernel's, in bytes: active page cache, mostly. It may be a second old. Nil, and
	// 0, mean that this is not known.
	KubeletGap func(now time.Time) int64
	// Memory keeps what must survive a restart; nil keeps nothing. Remembered is what it has kept
	// of the previous process. It is nil when nothing is known of the time before the start, and
	// then the start is a careful one, see docs/adr/0014. The zero State says that there was
	// nothing to keep.
	Memory     state.Memory
	Remembered *state.State
	// FreeOnCPULists returns the bytes of free memory that wait on the kernel's per-CPU lists,
	// where MemAvailable does not show them; nil where that cannot be read.
	FreeOnCPULists func() (int64, error)
	// Held reads the details of a pod's cgroup, on the executor's goroutine; it returns nil when
	// they are not known. With a nil function no victim has details.
	Held func(uid string) *usage.Detail
	// Random returns numbers in [0,1), for jitter.
	Random func() float64
	// Clock is the time by which the loop samples, decides and waits, and the executor sends; nil
	// is the real clock.
	Clock clock.Clock
}
