// Package sim is a node, its API server and their clock as one world, in which an agent runs: its pods use
// memory, tasks and disks, and terminate when they are evicted. The tests of the package are stories: a state
// of the world, what happens in it, and which pods are evicted and which decisions hold.
//
// The world lives by the time of package time: in a story that is the bubble's of testing/synctest. Tests and
// evictd simulate import the package.
package sim

import (
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Mebi is a MiB in bytes.
const Mebi = 1 << 20

// Node is a node with its API server. The driver of an agent may change the fields, while the agent runs
// with mu held: see [Node.After]. Functions among them are called with mu held, unless they say otherwise.
// Their zero values are those of a node without faults.
type Node struct {
	mu       sync.Mutex
	capacity int64
	host     int64 // used outside of pods
	pods     map[string]*Pod

	// What its readings are.
	countsCache bool                                   // memory.available counts active page cache as used
	hasKubelets bool                                   // it reads kubeletMemory.available too
	unknown     error                                  // why memory cannot be read
	sampled     func(*pressure.Sample)                 // changes each sample
	unread      error                                  // what Collect reports; with no pods
	collected   func([]usage.Pod) ([]usage.Pod, error) // changes what Collect reports
	unpresent   error                                  // why Present does not know
	noPodStalls bool                                   // cgroup v1 does not tell how long a pod waited
	unstalled   error                                  // what Stalls reports
	detail      func(uid string) usage.Detail          // what a cgroup says when its pod's eviction was accepted; without mu
	kills       int64                                  // of the kernel for want of memory
	gap         int64                                  // what agent.Options.KubeletGap returns
	disk        *Disk                                  // nil: no story about one
	images      *Images                                // at first none that is not used
	samples     int                                    // so many were taken
	collects    int                                    // and so often the pods were read
	stallReads  int                                    // and their stalls

	// What the API server says.
	unsynced    bool                                        // the list of pods is not complete
	staleWatch  error                                       // why the list cannot be relied on
	hidden      func(*nodepods.Pod) bool                    // what the list lacks
	behind      bool                                        // the watch does not tell of victims before they end
	ends        time.Duration                               // how long a victim takes to end
	endsAfter   func(uid string, grace int64) time.Duration // in place of ends, by its grace period in seconds; nil: all the same
	stubborn    bool                                        // victims never end
	slow        time.Duration                               // how long an answer takes
	hangs       string                                      // the pod whose request a webhook keeps
	answer      func(evict.Request) evict.Result            // nil: every request is accepted
	unlooked    error                                       // why a pod cannot be read again
	budgets     map[string]evict.Budget                     // by namespace/name
	unbudgeted  error                                       // why a budget cannot be read
	evictions   []evict.Request                             // all that were sent
	looks       []string                                    // pods that were read again
	budgetReads []string

	// What the agent has recorded.
	decisions  []decide.Decision
	said       [pressure.SignalCount]decide.Decision // the last, where that was a hold
	intents    []string
	warned     []string // the pods that are likely to be evicted, and how much of the grace period was left
	readFault  []string
	ended      []decide.Ended
	incidents  []incident.Incident // that have ended
	stale      int                 // verdicts
	mayBeStale bool                // some are expected

	reached func(step string) // by the agent, in a tick; without mu
}

// reach tells that the agent comes to a step.
func (n *Node) reach(step string) {
	if n.reached != nil {
		n.reached(step)
	}
}

// Pod is one of a node.
type Pod struct {
	api       *corev1.Pod   // as the watch tells
	leaving   *corev1.Pod   // as the API server has it since its deletion; nil before
	memory    int64         // all of it anonymous
	cache     int64         // active page cache, which counts for the working set alone
	waited    time.Duration // for memory, since its start
	limitHits int64
	self      bool // it is evictd
	noCgroup  bool // it has ended, and the API server lists it still

	stored     *nodepods.Pod // converted from storedFrom
	storedFrom *corev1.Pod
}

// New returns a node with so many MiB of memory and no pod, whose victims take two seconds to end.
func New(capacity int64) *Node {
	return &Node{capacity: capacity * Mebi, pods: map[string]*Pod{}, ends: 2 * time.Second, images: &Images{}}
}

// Run puts a ready pod of a ReplicaSet of its own on the node, with its use and its request in MiB. Its UID is
// its name after "uid-". It returns the pod.
func (n *Node) Run(name string, memory, request int64, change ...func(*corev1.Pod)) *Pod {
	pod := newPod(name, request*Mebi)
	for _, c := range change {
		c(pod)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[string(pod.UID)] = &Pod{api: pod, memory: memory * Mebi}
	return n.pods[string(pod.UID)]
}

// newPod returns a ready pod of a ReplicaSet of its own, with its request in bytes.
func newPod(name string, request int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs-" + types.UID(name), Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(30)),
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(request, resource.BinarySI)},
			}}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// After changes the node after so long.
func (n *Node) After(d time.Duration, change func()) {
	time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		change()
	})
}

// changed changes a pod as the watch tells it; mu is held.
func (n *Node) changed(name string, change func(*corev1.Pod)) {
	pod := n.pods["uid-"+name].api.DeepCopy()
	change(pod)
	n.pods["uid-"+name].api = pod
}

// Sample implements [agent.Options.Sample].
func (n *Node) Sample(now time.Time) pressure.Sample {
	time.Sleep(time.Microsecond) // no two samples are of one instant, as on no node
	n.reach("before a sample")
	defer n.reach("after a sample")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.samples++
	return n.observe(now)
}

// observe reads what there is of each signal; mu is held.
func (n *Node) observe(now time.Time) pressure.Sample {
	sample := pressure.Sample{Time: now}
	for i := range sample.Observations {
		sample.Observations[i].State = pressure.Absent
	}
	available := n.kubelets()
	if n.hasKubelets {
		sample.Observations[pressure.KubeletMemoryAvailable] = n.memory(available, nil)
	}
	for _, p := range n.pods {
		if !n.countsCache {
			available += p.cache
		}
	}
	sample.Observations[pressure.MemoryAvailable] = n.memory(available, n.unknown)
	if n.disk != nil {
		n.disk.observe(&sample)
	}
	if n.sampled != nil {
		n.sampled(&sample)
	}
	return sample
}

func (n *Node) memory(available int64, fault error) pressure.Observation {
	if fault != nil {
		return pressure.Observation{Err: fault}
	}
	return pressure.Observation{State: pressure.Known, Available: available, Capacity: n.capacity}
}

// kubelets returns what is available by the kubelet's measure; mu is held.
func (n *Node) kubelets() int64 {
	available := n.capacity - n.host
	for _, p := range n.pods {
		available -= p.memory + p.cache
	}
	return available
}

// Collect implements [measure.Cgroups].
func (n *Node) Collect(into []usage.Pod, _ usage.StandIn) ([]usage.Pod, error) {
	defer n.reach("after the pods' usage is read")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.collects++
	if n.unread != nil {
		return nil, n.unread
	}
	for uid, p := range n.pods {
		if !p.noCgroup {
			into = append(into, usage.Pod{
				UID: uid, WorkingSet: p.memory + p.cache, Anonymous: p.memory, Tasks: p.memory / Mebi, TasksKnown: true,
			})
		}
	}
	if n.collected != nil {
		return n.collected(into)
	}
	return into, nil
}

// Stalls implements [measure.Cgroups].
func (n *Node) Stalls() ([]usage.Stall, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stallReads++
	stalls := make([]usage.Stall, 0, len(n.pods))
	for uid, p := range n.pods {
		stalls = append(stalls, usage.Stall{
			UID: uid, Waited: p.waited.Microseconds(), WaitedKnown: !n.noPodStalls, LimitHits: p.limitHits,
		})
	}
	return stalls, n.unstalled
}

// Present implements [measure.Cgroups].
func (n *Node) Present(uid string) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unpresent != nil {
		return false, n.unpresent
	}
	p, there := n.pods[uid]
	return there && !p.noCgroup, nil
}

func (n *Node) detailOf(uid string) (usage.Detail, error) {
	if n.detail == nil {
		return nil, nil
	}
	return n.detail(uid), nil
}

func (n *Node) oomKills() (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kills, nil
}

// Synced implements [agent.Pods].
func (n *Node) Synced() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.unsynced
}

// Stale implements [agent.Pods].
func (n *Node) Stale() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.staleWatch
}

// List implements [agent.Pods].
func (n *Node) List() []*nodepods.Pod {
	n.reach("before the pods are listed")
	n.mu.Lock()
	defer n.mu.Unlock()
	pods := make([]*nodepods.Pod, 0, len(n.pods))
	for _, p := range n.pods { // in no order, as the store
		if n.behind || !p.removed() {
			pods = append(pods, p.converted())
		}
	}
	if n.hidden != nil {
		return slices.DeleteFunc(pods, n.hidden)
	}
	return pods
}

// removed reports whether the API server has removed a pod that may still run: one that was deleted with a grace period
// of 0 is gone there at once.
func (p *Pod) removed() bool { return p.leaving != nil && *p.leaving.DeletionGracePeriodSeconds == 0 }

// converted returns the pod as the store has it. As in the store, a pod is converted once for each
// object: who changes a pod that was listed gives it another object (changed).
func (p *Pod) converted() *nodepods.Pod {
	if p.storedFrom != p.api {
		p.stored, p.storedFrom = nodepods.FromAPI(p.api), p.api
		p.stored.Self = p.self
	}
	return p.stored
}

// errPlanted is the cause of a fault.
func errPlanted() error { return errors.New("planted") }
