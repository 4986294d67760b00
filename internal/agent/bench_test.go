package agent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

const mebi = 1 << 20

// benchNode is a node whose readings cost nothing, so that only the agent's own work
// is counted. What a reading costs is benchmarked in pkg/pressure and pkg/usage.
type benchNode struct {
	sample pressure.Sample
	pods   []*nodepods.Pod
	uses   []usage.Pod
}

// newBenchNode has so many pods of a Deployment each, with so many MiB left.
func newBenchNode(count int, available int64) *benchNode {
	n := &benchNode{}
	for i := range n.sample.Observations {
		n.sample.Observations[i].State = pressure.Absent
	}
	n.sample.Observations[pressure.MemoryAvailable] = pressure.Observation{
		State: pressure.Known, Available: available * mebi, Capacity: 32 << 10 * mebi,
	}
	isController, grace := true, int64(30)
	for i := range count {
		uid := fmt.Sprintf("uid-%03d", i)
		n.pods = append(n.pods, nodepods.FromAPI(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprintf("pod-%03d", i), UID: types.UID(uid),
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs-" + types.UID(uid), Controller: &isController}},
			},
			Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(200*mebi, resource.BinarySI)},
				}}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}))
		used := int64(100+i) * mebi
		n.uses = append(n.uses, usage.Pod{UID: uid, WorkingSet: used, Anonymous: used, Tasks: 10, TasksKnown: true})
	}
	return n
}

func (n *benchNode) Sample(now time.Time) pressure.Sample {
	sample := n.sample
	sample.Time = now
	return sample
}
func (*benchNode) Want(taint.Wanted)             {}
func (*benchNode) Settled(context.Context) error { return nil }
func (*benchNode) Synced() bool                  { return true }
func (*benchNode) Stale() error                  { return nil }
func (n *benchNode) List() []*nodepods.Pod       { return slices.Clone(n.pods) }
func (n *benchNode) Collect(into []usage.Pod, _ usage.StandIn) ([]usage.Pod, error) {
	return append(into, n.uses...), nil
}
func (*benchNode) Stalls() ([]usage.Stall, error) { return nil, nil }
func (*benchNode) Present(string) (bool, error)   { return true, nil }
func (*benchNode) Evict(context.Context, evict.Request) evict.Result {
	return evict.Result{Outcome: evict.WouldEvict}
}

func (*benchNode) Look(context.Context, evict.Request) (evict.Outcome, error) {
	return evict.Unconfirmed, nil
}

func (*benchNode) Budget(context.Context, string, string) (evict.Budget, error) {
	return evict.Budget{}, nil
}

// silence records nothing, and counts the decisions.
type silence struct{ decided int }

func (*silence) Sample(*pressure.Sample, *pressure.Verdict)  {}
func (*silence) Tick(time.Time, time.Duration)               {}
func (*silence) Incidents(_, _ []incident.Incident)          {}
func (*silence) Intent(*decide.Decision, *decide.Attempt)    {}
func (s *silence) Decision(*decide.Decision)                 { s.decided++ }
func (*silence) Likely(*decide.Decision, *decide.Attempt)    {}
func (*silence) Ledger(time.Time, []decide.Victim, int, int) {}
func (*silence) Failed(string, error)                        {}
func (*silence) VictimEnded(*decide.Ended)                   {}
func (*silence) Acting(acting.State)                         {}

// newBenchAgent makes a dry run's, without limits.
func newBenchAgent(tb testing.TB, n *benchNode, change ...func(*Options)) *Agent {
	tb.Helper()
	options := Options{
		Policy: Policy{
			Policy: decide.Policy{
				Thresholds:     []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.1), Hard: true}},
				Rules:          rank.Rules{DaemonSets: true, BarePods: true},
				WithinRequests: decide.WithinRequestsNever,
			},
			Pacing: pressure.Pacing{Min: 10 * time.Millisecond, Max: time.Second},
			Limits: config.Limits{EvictionsPerMinute: 1 << 30, PerOwnerPerHour: 1 << 30},
			Acting: func() acting.State { return acting.State{Reason: acting.Configured} },
		},
		Save:       func(any) func() { return func() {} },
		Remembered: &State{}, Sample: n.Sample, Pods: n, Measure: measure.Options{Cgroups: n, Fault: func(string, error) {}}, Evictor: n, Recorder: &silence{}, Random: func() float64 { return 0 },
		OOMKills: func() (int64, error) { return 0, nil }, KubeletGap: func(time.Time) int64 { return 0 }, Taints: n, Held: func(string) (usage.Detail, error) { return nil, nil },
	}
	for _, c := range change {
		c(&options)
	}
	return New(options)
}

// BenchmarkTickCalm110 is a tick of a node that is short of nothing: it must
// allocate nothing.
func BenchmarkTickCalm110(b *testing.B) {
	told := &silence{}
	a := newBenchAgent(b, newBenchNode(110, 16<<10), func(o *Options) { o.Recorder = told })
	a.tick(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		a.tick(b.Context())
	}
	if a.planned != nil || told.decided != 0 {
		b.Fatal("a calm node was acted on")
	}
}

// BenchmarkTickDecides110 is a tick that finds pressure, ranks all pods and hands
// the first one over, until the decision is complete. The books are new each time.
func BenchmarkTickDecides110(b *testing.B) {
	n := newBenchNode(110, 1<<10)
	a := newBenchAgent(b, n)
	b.ReportAllocs()
	for b.Loop() {
		a.victims = inflight.New(n, a.measurer)
		a.cooldown = cooldown.New(a.policy.Limits, a.options.Random)
		a.tick(b.Context())
		if a.planned == nil {
			b.Fatal("no pod was chosen")
		}
		a.takeReport(<-a.executor.Reports())
	}
}

// BenchmarkTickWaits110 is a tick under pressure while the pods in flight free enough. There are
// ten such ticks a second until the victim has ended.
func BenchmarkTickWaits110(b *testing.B) {
	a := newBenchAgent(b, newBenchNode(110, 3<<10+200))
	a.tick(b.Context())
	if a.planned == nil {
		b.Fatal("no pod was chosen")
	}
	a.takeReport(<-a.executor.Reports())
	b.ReportAllocs()
	for b.Loop() {
		a.tick(b.Context())
	}
	if a.planned != nil { // each tick decides to wait
		b.Fatal("another one was chosen")
	}
}
