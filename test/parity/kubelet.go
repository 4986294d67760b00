package parity

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubeletstats "k8s.io/kubernetes/pkg/kubelet/server/stats"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Cycle is what the kubelet's eviction manager did for one reading.
type Cycle struct {
	// Reclaims is the resource that it tried to reclaim, "" for none.
	Reclaims string
	// Order are the names of its active pods, ranked if it reclaimed.
	Order []string
	// Images says that it removed unused images first.
	Images bool
	// Victim is the pod that it killed, "" for none. Message is its message for the pod, and
	// Grace the grace period in seconds, one for a hard eviction.
	Victim, Message string
	Grace           int64
	// Seen says that evictd sees by the pod's status then that the kubelet evicted it.
	Seen bool
	// Memory, Disk and PID are the node's conditions.
	Memory, Disk, PID bool
}

// softGrace is evictionMaxPodGracePeriod, in seconds.
const softGrace = 600

// oracle runs the kubelet's manager over one state. The manager's loop cannot be stopped,
// but its goroutine can be ended in a callback: [oracle.activePods] does so when the
// readings have ended.
type oracle struct {
	// Of the two interfaces the manager uses what is defined below; it receives a pod's eviction as an
	// Event, which kill sees too.
	kubeletstats.SummaryProvider
	record.FakeRecorder

	state   *State
	pods    []*corev1.Pod // as in the kubelet; nil for a node without pods
	stats   []statsapi.PodStats
	manager eviction.Manager
	admits  lifecycle.PodAdmitHandler
	clock   readingClock
	at      int // the reading of this cycle; -1 before the first
	ranked  []*corev1.Pod
	cycles  []Cycle
	ended   chan struct{}
}

// kubelet returns what the kubelet does at each reading. Without pods it returns only what
// it would reclaim.
func kubelet(ctx context.Context, state *State, thresholds []evictionapi.Threshold, pods []Pod) []Cycle {
	o := &oracle{state: state, at: -1, ended: make(chan struct{}), clock: readingClock{clocktesting.NewFakeClock(start())}}
	for i := range pods {
		if !pods[i].active() {
			continue
		}
		o.pods = append(o.pods, pods[i].kubelet())
		if stats := pods[i].stats(); stats != nil {
			o.stats = append(o.stats, *stats)
		}
	}
	o.manager, o.admits = eviction.NewManager(o, eviction.Config{
		PressureTransitionPeriod: state.Thresholds.Transition,
		MaxPodGracePeriodSeconds: softGrace,
		Thresholds:               thresholds,
	}, o.kill, o, o, o, &corev1.ObjectReference{Kind: "Node", Name: "node"}, o.clock, false)
	o.manager.Start(klog.NewContext(ctx, logr.Discard()), o, o.activePods, func(*corev1.Pod) bool { return true }, 0)
	<-o.ended
	return o.cycles
}

// activePods is called once at the start of each cycle, when the previous one is over.
func (o *oracle) activePods() []*corev1.Pod {
	o.finish()
	o.at++
	if o.state.turn != nil {
		o.state.turn(o)
	}
	if o.at == len(o.state.Readings) {
		close(o.ended)
		runtime.Goexit()
	}
	o.clock.Step(o.state.Readings[o.at].After)
	o.cycles = append(o.cycles, Cycle{})
	// The manager sorts the slice in place.
	o.ranked = append([]*corev1.Pod(nil), o.pods...)
	return o.ranked
}

func (o *oracle) finish() {
	if o.at < 0 {
		return
	}
	cycle := &o.cycles[o.at]
	cycle.Memory, cycle.Disk = o.manager.IsUnderMemoryPressure(), o.manager.IsUnderDiskPressure()
	cycle.PID = o.manager.IsUnderPIDPressure()
	for _, pod := range o.ranked {
		cycle.Order = append(cycle.Order, pod.Name)
	}
}

// kill replaces the kubelet's pod workers.
func (o *oracle) kill(pod *corev1.Pod, _ bool, grace *int64, change func(*corev1.PodStatus)) error {
	killed := pod.DeepCopy()
	change(&killed.Status)
	cycle := &o.cycles[o.at]
	cycle.Victim, cycle.Message = pod.Name, killed.Status.Message
	cycle.Seen = !nodepods.FromAPI(killed).KubeletEvictedAt.IsZero()
	cycle.Grace = *grace
	return nil
}

// Get returns the Summary of this cycle's reading.
func (o *oracle) Get(context.Context, bool) (*statsapi.Summary, error) {
	return o.state.summary(o.at, o.clock.Now(), o.stats), nil
}

// HasDedicatedImageFs reports whether images have their own filesystem.
func (o *oracle) HasDedicatedImageFs(context.Context) (bool, error) {
	return o.state.Layout != OneFS, nil
}

// HasDedicatedContainerFs reports whether writable layers are not on the filesystem of the
// images.
func (o *oracle) HasDedicatedContainerFs(context.Context) (bool, error) {
	return o.state.Layout == SplitFS, nil
}

// DeleteUnusedImages changes the reading where it finds some.
func (o *oracle) DeleteUnusedImages(context.Context) error {
	o.cycles[o.at].Images = true
	if cleaned := o.state.Readings[o.at].cleaned; cleaned != nil {
		o.state.Readings[o.at].Figures = cleaned
	}
	return nil
}

// DeleteAllUnusedContainers finds none.
func (o *oracle) DeleteAllUnusedContainers(context.Context) error { return nil }

// Eventf receives the resource that the manager tries to reclaim.
func (o *oracle) Eventf(_ apiruntime.Object, _, reason, _ string, values ...any) {
	if reason == "EvictionThresholdMet" {
		o.cycles[o.at].Reclaims = fmt.Sprint(values...)
	}
}

// critical reports whether the kubelet would skip the pod.
func (p *Pod) critical() bool { return kubelettypes.IsCriticalPod(p.finished()) }

// summary returns the kubelet's Summary at one reading. A repeated reading has the time of
// the first.
func (s *State) summary(at int, now time.Time, pods []statsapi.PodStats) *statsapi.Summary {
	figures, when := s.Readings[at].Figures, metav1.NewTime(now)
	summary := &statsapi.Summary{Pods: pods}
	if f, known := figures[pressure.MemoryAvailable.String()]; known {
		summary.Node.Memory = memoryStats(f, when)
	}
	if f, known := figures[pressure.AllocatableMemoryAvailable.String()]; known {
		summary.Node.SystemContainers = []statsapi.ContainerStats{
			{Name: statsapi.SystemContainerPods, Memory: memoryStats(f, when)},
		}
	}
	nodefs := fsStats(figures, pressure.NodeFSAvailable, pressure.NodeFSInodesFree, when)
	imagefs := fsStats(figures, pressure.ImageFSAvailable, pressure.ImageFSInodesFree, when)
	containerfs := imagefs
	if s.Layout == SplitFS {
		containerfs = nodefs
	}
	summary.Node.Fs = nodefs
	summary.Node.Runtime = &statsapi.RuntimeStats{ImageFs: storing(imagefs, 1), ContainerFs: storing(containerfs, 1)}
	if s.Layout == SplitFS {
		summary.Node.Runtime.ContainerFs = storing(containerfs, 2)
	}
	if f, known := figures[pressure.PIDAvailable.String()]; known {
		summary.Node.Rlimit = &statsapi.RlimitStats{
			Time: when, MaxPID: new(f.Capacity), NumOfRunningProcesses: new(f.Capacity - f.Available),
		}
	}
	return summary
}

// memoryStats returns a figure as the kubelet computes it: available memory is the limit
// minus the working set, in unsigned numbers that wrap around. So does the capacity, which
// is their sum.
func memoryStats(f Figure, when metav1.Time) *statsapi.MemoryStats {
	return &statsapi.MemoryStats{
		Time:            when,
		AvailableBytes:  new(uint64(f.Available)),              //nolint:gosec // wraps on purpose, as in the kubelet
		WorkingSetBytes: new(uint64(f.Capacity - f.Available)), //nolint:gosec // never negative
	}
}

func fsStats(figures map[string]Figure, space, inodes pressure.Signal, when metav1.Time) *statsapi.FsStats {
	stats := &statsapi.FsStats{Time: when}
	if f, known := figures[space.String()]; known {
		stats.AvailableBytes, stats.CapacityBytes = unsigned(f.Available), unsigned(f.Capacity)
	}
	if f, known := figures[inodes.String()]; known {
		stats.InodesFree, stats.Inodes = unsigned(f.Available), unsigned(f.Capacity)
	}
	return stats
}

// storing returns the figures of one of the runtime's filesystems, with the size of the
// runtime's data there: that distinguishes the two even where nothing else is known of them.
func storing(fs *statsapi.FsStats, used uint64) *statsapi.FsStats {
	stats := *fs
	stats.UsedBytes = &used
	return &stats
}

// readingClock returns the time of the reading. After an eviction the manager polls with a
// ticker until the pod is gone; this one has ticked at once, so that nothing waits.
type readingClock struct{ *clocktesting.FakeClock }

// NewTicker returns one that has ticked.
func (c readingClock) NewTicker(d time.Duration) clock.Ticker {
	ahead := clocktesting.NewFakeClock(c.Now())
	ticker := ahead.NewTicker(d)
	ahead.Step(d)
	return ticker
}
