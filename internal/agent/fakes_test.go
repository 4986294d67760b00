package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

const mebi = 1 << 20

// fakeNode is a node whose memory, pods and API server the test writes. The API server deletes what
// it evicts: the pod terminates, and ends with its memory when its grace period is over.
type fakeNode struct {
	mu             sync.Mutex
	capacity       int64
	host           int64 // used outside of pods
	unknown        error // why memory cannot be read; nil when it can
	countsCache    bool  // memory.available counts active page cache as used
	hasKubelets    bool  // it reads kubeletMemory.available too
	unreadKubelets error // why that cannot be read; nil when it can
	pods           map[string]*fakePod
	unsynced       bool
	collects       int
	unread         error // what Collect reports; with no pods
	noPodStalls    bool  // cgroup v1 does not tell how long a pod waited
	unstalled      error // what Stalls reports
	stallReads     int
	unpresent      error // why Present does not know; nil when it does
	samples        int
	evictions      []evict.Request
	answer         func(r evict.Request) evict.Result // nil: accept everything
	looks          []string                           // pods that were read again
	unlooked       error                              // why a pod cannot be read again; nil when it can
	slow           time.Duration                      // how long an answer takes
	ends           time.Duration                      // how long a victim takes to end
	stubborn       bool                               // victims never end
	behind         bool                               // the watch does not tell of victims before they end
	decisions      []decide.Decision
	held           [pressure.SignalCount]*decide.Decision // the last hold that was noted
	lastID         uint64
	intents        []string
	readFault      []string
	stale          int  // verdicts
	mayBeStale     bool // a test asks for some

	budgets     map[string]evict.Budget // by namespace/name
	unbudgeted  error                   // why a budget cannot be read; nil when it can
	budgetReads []string
	ended       []decide.Ended
	incidents   []incident.Incident // that have ended
}

type fakePod struct {
	api       *corev1.Pod   // as the watch tells
	leaving   *corev1.Pod   // as the API server has it since its deletion; nil before
	memory    int64         // all of it anonymous
	waited    time.Duration // for memory, since its start
	limitHits int64
	cache     int64 // active page cache, which counts for the working set alone
	noCgroup  bool  // it has ended, and the API server lists it still

	stored     *nodepods.Pod // converted from storedFrom
	storedFrom *corev1.Pod
}

func newFakeNode(capacity int64) *fakeNode {
	return &fakeNode{capacity: capacity * mebi, pods: map[string]*fakePod{}, ends: 2 * time.Second}
}

// run puts a pod on the node, with its use and its request in MiB.
func (n *fakeNode) run(name string, memory, request int64, change ...func(*corev1.Pod)) {
	isController, grace := true, int64(30)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs-" + types.UID(name), Controller: &isController}},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(request*mebi, resource.BinarySI)},
			}}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[string(pod.UID)] = &fakePod{api: pod, memory: memory * mebi}
}

func (n *fakeNode) Sample(now time.Time) pressure.Sample {
	time.Sleep(time.Microsecond) // no two samples are of one instant, as on no node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.samples++
	sample := pressure.Sample{Time: now}
	for i := range sample.Observations {
		sample.Observations[i].State = pressure.Absent
	}
	if n.hasKubelets {
		sample.Observations[pressure.KubeletMemoryAvailable] = pressure.Observation{State: pressure.Known, Available: n.kubelets(), Capacity: n.capacity}
	}
	if n.unreadKubelets != nil {
		sample.Observations[pressure.KubeletMemoryAvailable] = pressure.Observation{Err: n.unreadKubelets}
	}
	seen := &sample.Observations[pressure.MemoryAvailable]
	if n.unknown != nil {
		*seen = pressure.Observation{Err: n.unknown}
		return sample
	}
	available := n.kubelets()
	for _, p := range n.pods {
		if !n.countsCache {
			available += p.cache
		}
	}
	*seen = pressure.Observation{State: pressure.Known, Available: available, Capacity: n.capacity}
	return sample
}

// kubelets returns what is available by the kubelet's measure. The caller holds the lock.
func (n *fakeNode) kubelets() int64 {
	available := n.capacity - n.host
	for _, p := range n.pods {
		available -= p.memory + p.cache
	}
	return available
}

func (n *fakeNode) Stale() error { return nil }

func (n *fakeNode) Synced() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.unsynced
}

func (n *fakeNode) List() []*nodepods.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	pods := make([]*nodepods.Pod, 0, len(n.pods))
	for _, p := range n.pods { // in no order, as the store
		pods = append(pods, p.converted())
	}
	return pods
}

// converted returns the pod as the store has it. As in the store, a pod is converted once for each
// object: a test that changes a pod that was listed gives it another object (changed).
func (p *fakePod) converted() *nodepods.Pod {
	if p.storedFrom != p.api {
		p.stored, p.storedFrom = nodepods.FromAPI(p.api), p.api
	}
	return p.stored
}

// changed changes a pod as the watch tells it; the lock is held.
func (n *fakeNode) changed(name string, change func(*corev1.Pod)) {
	pod := n.pods["uid-"+name].api.DeepCopy()
	change(pod)
	n.pods["uid-"+name].api = pod
}

func (n *fakeNode) Collect(into []usage.Pod) ([]usage.Pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.collects++
	if n.unread != nil {
		return nil, n.unread
	}
	for uid, p := range n.pods {
		if p.noCgroup {
			continue
		}
		into = append(into, usage.Pod{
			UID: uid, WorkingSet: p.memory + p.cache, Anonymous: p.memory, Tasks: p.memory / mebi, TasksKnown: true,
		})
	}
	return into, nil
}

func (n *fakeNode) Stalls() ([]usage.Stall, error) {
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

func (n *fakeNode) Present(uid string) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unpresent != nil {
		return false, n.unpresent
	}
	p, there := n.pods[uid]
	return there && !p.noCgroup, nil
}

func (n *fakeNode) Evict(ctx context.Context, r evict.Request) evict.Result {
	sent := time.Now()
	n.mu.Lock()
	slow := n.slow
	n.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Withdrawn: true, Message: context.Cause(ctx).Error(), Sent: sent}
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.evictions = append(n.evictions, r)
	result := evict.Result{Outcome: taken(r)}
	if n.answer != nil {
		result = n.answer(r)
	} else if n.pods[r.UID] == nil {
		result.Outcome = evict.Gone
	}
	result.Sent, result.Took = sent, time.Since(sent)
	if result.Outcome.Accepted() && !result.Outcome.Simulated() {
		n.terminate(r.UID, r.GraceSeconds)
	}
	return result
}

// taken returns the outcome of a request that the API server takes.
func taken(r evict.Request) evict.Outcome {
	return map[bool]map[bool]evict.Outcome{
		false: {false: evict.Evicted, true: evict.WouldEvict},
		true:  {false: evict.Deleted, true: evict.WouldDelete},
	}[r.Delete][r.DryRun]
}

func (n *fakeNode) Budget(_ context.Context, namespace, name string) (evict.Budget, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.budgetReads = append(n.budgetReads, name)
	budget, there := n.budgets[namespace+"/"+name]
	switch {
	case n.unbudgeted != nil:
		return evict.Budget{}, n.unbudgeted
	case !there:
		return evict.Budget{}, fmt.Errorf("%s: %w", name, evict.ErrNoBudget)
	}
	budget.Name = name
	return budget, nil
}

func (n *fakeNode) Look(_ context.Context, r evict.Request) (evict.Fate, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looks = append(n.looks, r.Name)
	pod, there := n.pods[r.UID]
	switch {
	case n.unlooked != nil:
		return evict.Stays, n.unlooked
	case !there:
		return evict.Ended, nil
	case pod.leaving != nil:
		return evict.Leaving, nil
	default:
		return evict.Stays, nil
	}
}

// terminate is what the API server and the kubelet do with an evicted pod; the request may carry a
// grace period of its own. The caller holds the lock.
func (n *fakeNode) terminate(uid string, grace ...*int64) {
	victim := n.pods[uid]
	leaving := victim.api.DeepCopy()
	// The API server's clock is an hour behind the node's.
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)}
	leaving.DeletionGracePeriodSeconds = leaving.Spec.TerminationGracePeriodSeconds
	for _, asked := range grace {
		if asked != nil {
			leaving.DeletionGracePeriodSeconds = asked
		}
	}
	victim.leaving = leaving
	if !n.behind {
		victim.api = leaving
	}
	if n.stubborn {
		return
	}
	time.AfterFunc(n.ends, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.pods, uid)
	})
}

// Decision notes a decision, as the record does: a hold that is made again at each tick once in 30 s.
func (n *fakeNode) Decision(d *decide.Decision) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := &n.held[d.Pressure.Threshold.Signal]
	if d.Verb != decide.Held {
		*last = nil
	} else if *last != nil && (*last).Hold == d.Hold && (*last).Pressure.Threshold.Hard == d.Pressure.Threshold.Hard && d.Time.Sub((*last).Time) < 30*time.Second {
		return
	} else {
		*last = d
	}
	n.decisions = append(n.decisions, *d)
}

func (n *fakeNode) Number(d *decide.Decision) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastID++
	d.ID = n.lastID
}

func (n *fakeNode) Incidents(_, ended []incident.Incident) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.incidents = append(n.incidents, ended...)
}

func (n *fakeNode) Intent(_ *decide.Decision, a *decide.Attempt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.intents = append(n.intents, a.Entry.Pod.Name)
}

func (n *fakeNode) VictimEnded(e *decide.Ended) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = append(n.ended, *e)
}

func (n *fakeNode) Failed(source string, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.readFault = append(n.readFault, source)
}

// recorder is the fakeNode as a Recorder: Sample means something else there.
type recorder struct{ *fakeNode }

// Sample notes a stale verdict, which has no pressures: it hides what is done under pressure alone.
func (r recorder) Sample(_ *pressure.Sample, verdict *pressure.Verdict) {
	if verdict.Stale {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stale++
	}
}

func (recorder) Tick(time.Time, time.Duration)               {}
func (recorder) Ledger(time.Time, []decide.Victim, int, int) {}
func (recorder) Acting(acting.State)                         {}

// victims returns the names of the pods in the order of their requests.
func (n *fakeNode) victims() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	names := make([]string, 0, len(n.evictions))
	for _, r := range n.evictions {
		names = append(names, r.Name)
	}
	return names
}

// wantVictims fails the test unless these pods were evicted, in this order.
func (n *fakeNode) wantVictims(t *testing.T, names ...string) {
	t.Helper()
	if diff := cmp.Diff(names, n.victims(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}

// holds returns why no pod was evicted, in order, without repetitions.
func (n *fakeNode) holds() []decide.Hold {
	n.mu.Lock()
	defer n.mu.Unlock()
	var holds []decide.Hold
	for _, d := range n.decisions {
		if d.Verb == decide.Held {
			holds = append(holds, d.Hold)
		}
	}
	return slices.Compact(holds)
}

// hardPolicy evicts below a tenth of the memory.
func hardPolicy() Policy {
	return Policy{
		Policy: decide.Policy{
			Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.1), Hard: true}},
			Rules:      rank.Rules{DaemonSets: true, BarePods: true},
			// Most tests are about other things than requests.
			WithinRequests: decide.WithinRequestsNever,
		},
		Pacing: pressure.Pacing{Min: 10 * time.Millisecond, Max: time.Second},
	}
}

// enforced makes a policy one of an agent that acts unless it is a dry run.
func enforced(policy Policy) Policy {
	dryRun := policy.DryRun
	if policy.Acting == nil {
		policy.Acting = func() acting.State {
			if dryRun {
				return acting.State{Reason: acting.Configured}
			}
			return acting.State{}
		}
	}
	return policy
}

// newAgent makes an agent of the node, with parts of the test's own.
func newAgent(t *testing.T, n *fakeNode, policy Policy, change ...func(*Options)) *Agent {
	t.Helper()
	options := Options{
		Policy: enforced(policy), Sampler: n, Pods: n, Cgroups: n, Evictor: n, Recorder: recorder{n},
		Random: func() float64 { return 0 }, Remembered: &State{},
	}
	for _, c := range change {
		c(&options)
	}
	a, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	n.failsWhereStale(t)
	return a
}

// failsWhereStale makes a test fail that had a stale verdict and does not ask for one.
func (n *fakeNode) failsWhereStale(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if n.stale > 0 && !n.mayBeStale {
			t.Errorf("%d verdicts were stale: two samples of one instant", n.stale)
		}
	})
}

// watch runs an agent on the node for a while, in the bubble's time.
func watch(t *testing.T, n *fakeNode, policy Policy, during time.Duration) {
	t.Helper()
	runFor(t, newAgent(t, n, policy), during)
}

// runFor is watch with an agent of the test's own.
func runFor(t *testing.T, a *Agent, during time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	if err := a.Run(ctx); err != nil {
		t.Errorf("running: %v", err)
	}
	synctest.Wait()
}

// after changes the node once it has run for so long.
func (n *fakeNode) after(d time.Duration, change func()) {
	time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		change()
	})
}

// last returns the newest decision.
func (n *fakeNode) last(t *testing.T) decide.Decision {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.decisions) == 0 {
		t.Fatal("no decision was recorded")
	}
	return n.decisions[len(n.decisions)-1]
}

func errPlanted() error { return errors.New("planted") }

// newCooldown returns a cooldown that remembers nothing and draws that number.
func newCooldown(limits cooldown.Limits, drawn float64) *cooldown.Tracker {
	return cooldown.New(limits, func() float64 { return drawn })
}
