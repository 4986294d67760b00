package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// world is a node of 1000 MiB in a story, with the policy and the state file of its agents.
type world struct {
	*Node
	t      *testing.T
	policy agent.Policy // at first [HardPolicy]
	option func(*agent.Options)
	file   *File
	agent  *agent.Agent // the last one that was started
	began  time.Time
}

// story tells a story in a time of its own.
func story(t *testing.T, tell func(n *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { tell(newWorld(t)) })
}

// stories tells a story for each case, with the case's name.
func stories[K comparable, Case any](t *testing.T, cases map[K]Case, tell func(n *world, name K, c Case)) {
	t.Helper()
	t.Parallel()
	for name, c := range cases {
		t.Run(fmt.Sprint(name), func(t *testing.T) { story(t, func(n *world) { tell(n, name, c) }) })
	}
}

// cases tells a story for each case, which begins with what is the same in all of them; nil is nothing.
func cases(t *testing.T, same func(n *world), all map[string]func(n *world)) {
	t.Helper()
	stories(t, all, func(n *world, _ string, tell func(n *world)) {
		if same != nil {
			same(n)
		}
		tell(n)
	})
}

// each tells a story for each value.
func each[V any](t *testing.T, values []V, tell func(n *world, v V)) {
	t.Helper()
	t.Parallel()
	for _, v := range values {
		t.Run(fmt.Sprint(v), func(t *testing.T) { story(t, func(n *world) { tell(n, v) }) })
	}
}

// newWorld returns a world for a test in a bubble of time.
func newWorld(t *testing.T) *world {
	t.Helper()
	n := &world{Node: New(1000), t: t, policy: HardPolicy(), file: &File{}, began: time.Now()}
	t.Cleanup(func() {
		if n.stale > 0 && !n.mayBeStale {
			t.Errorf("%d verdicts were stale: two samples of one instant", n.stale)
		}
	})
	return n
}

// memory makes the node one of so many MiB.
func (n *world) memory(capacity int64) { n.capacity = capacity * Mebi }

// runs puts pods on the node, each written as "name use/request" in MiB.
func (n *world) runs(pods ...string) {
	n.t.Helper()
	for _, pod := range pods {
		var name string
		var use, request int64
		if _, err := fmt.Sscanf(strings.ReplaceAll(pod, "/", " "), "%s %d %d", &name, &use, &request); err != nil {
			n.t.Fatalf("%q: %v", pod, err)
		}
		n.Run(name, use, request)
	}
}

// pod returns the pod of that name; nil where it has ended.
func (n *world) pod(name string) *Pod { return n.pods["uid-"+name] }

// start makes an agent that knows that there was nothing before it.
func (n *world) start(change ...func(*agent.Options)) {
	n.t.Helper()
	options := n.Options(n.policy, n.file)
	if n.option != nil {
		n.option(&options)
	}
	for _, c := range change {
		c(&options)
	}
	n.agent = agent.New(options)
}

// watch runs a new agent for a while.
func (n *world) watch(during time.Duration, change ...func(*agent.Options)) {
	n.t.Helper()
	n.start(change...)
	n.on(during)
}

// live runs a new agent, which finds the file of the one before.
func (n *world) live(during time.Duration) {
	n.t.Helper()
	n.watch(during, func(o *agent.Options) {
		if kept := n.kept(); kept != nil {
			o.Remembered = kept
		}
	})
}

// knowsNothing makes a process one that knows nothing of the time before its start.
func knowsNothing(o *agent.Options) { o.Remembered = nil }

// on lets the agent run on for a while.
func (n *world) on(during time.Duration) {
	n.t.Helper()
	ctx, stop := context.WithTimeout(n.t.Context(), during)
	defer stop()
	if err := n.agent.Run(ctx); err != nil {
		n.t.Errorf("running: %v", err)
	}
	synctest.Wait()
}

// background runs the agent until stop is called.
func (n *world) background() (stop func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.agent.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Errorf("running: %v", err)
		}
	}
}

// reloads gives the agent another policy after so long.
func (n *world) reloads(after time.Duration, change func(*agent.Policy)) {
	policy := n.policy
	change(&policy)
	time.AfterFunc(after, func() { n.agent.Reload(n.t.Context(), enforced(policy), n.Sample) })
}

// takes lets the host use so many MiB more after so long.
func (n *world) takes(after time.Duration, amount int64) {
	n.After(after, func() { n.host += amount * Mebi })
}

// leaks lets a pod, or the host where the name is "", use that many bytes more each second, for a while.
func (n *world) leaks(name string, from time.Duration, perSecond int64, during time.Duration) {
	const step = 100 * time.Millisecond
	for at := step; at <= during; at += step {
		n.After(from+at, func() {
			if by := perSecond * int64(step) / int64(time.Second); name == "" {
				n.host += by
			} else if pod := n.pod(name); pod != nil {
				pod.memory += by
			}
		})
	}
}

// outcomes are the API server's answers by the pods' names.
type outcomes = map[string]evict.Outcome

// answers has the API server give outcomes by the pods' names, and after "delete " to a request that bypasses
// a budget; that of "" is for all others. A request without one is taken.
func (n *world) answers(all outcomes) {
	n.answer = func(r evict.Request) evict.Result {
		name := r.Name
		if r.Delete {
			name = "delete " + name
		}
		outcome, given := all[name]
		if other, is := all[""]; !given && is && !r.Delete {
			outcome, given = other, true
		}
		if !given {
			return evict.Result{Outcome: taken(r)}
		}
		return evict.Result{Outcome: outcome, Budget: r.Name}
	}
}

// lost is the answer to a request whose response is lost.
func lost(evict.Request) evict.Result {
	return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Message: "connection reset"}
}

// filesystem makes the agent measure a disk of 1000, of which 100 should be available. The end
// of a pod frees nothing.
func (n *world) filesystem(signal pressure.Signal, available func(since time.Duration) int64) {
	n.disk = &Disk{
		node: n.Node, signal: signal, started: n.began, available: available, ended: map[string]time.Time{}, measured: map[string]usage.DiskUse{},
		freed: func(map[string]time.Duration) int64 { return 0 },
	}
	n.policy.Thresholds = []pressure.Threshold{{Signal: signal, Quantity: pressure.Absolute(100), Hard: true}}
}

// short is a filesystem with 50 left, and 500 once fewer than two pods are there.
func (n *world) short(signal pressure.Signal) {
	n.filesystem(signal, steps(map[time.Duration]int64{0: 50}))
	n.disk.freed = func(map[string]time.Duration) int64 {
		if len(n.pods) < 2 {
			return 450
		}
		return 0
	}
}

// holds runs a pod of 1 MiB with that use of the disks.
func (n *world) holds(name string, use usage.DiskUse) {
	n.Run(name, 1, 0)
	n.disk.measured["uid-"+name] = use
}

const nodefs = pressure.NodeFSAvailable

// largeAndSmall is a node with a filesystem of such an availability, and the pods large and small, which hold 90 and
// 15: 10 are missing where 90 are available. The end of each returns 90 at once.
func (n *world) largeAndSmall(signal pressure.Signal, available func(since time.Duration) int64) {
	n.filesystem(signal, available)
	n.disk.freed = func(ended map[string]time.Duration) int64 { return 90 * int64(len(ended)) }
	for name, used := range map[string]int64{"large": 90, "small": 15} {
		n.holds(name, onDisk(used, used, used, used))
		n.disk.watched = append(n.disk.watched, name)
	}
}

// collects makes the space of large come back only so long after its end, as the kubelet does with dead containers;
// small alone could return what is missing by then.
func (n *world) collectsAfter(after time.Duration) {
	n.disk.freed = func(ended map[string]time.Duration) int64 {
		if ended["large"] > after {
			return 90
		}
		return 0
	}
}

func always(available int64) func(time.Duration) int64 {
	return steps(map[time.Duration]int64{0: available})
}

// onDisk is a use of each filesystem, all of it in writable layers.
func onDisk(nodeBytes, nodeInodes, imageBytes, imageInodes int64) usage.DiskUse {
	return measuretest.DiskUse(nodeBytes, nodeInodes, imageBytes, imageInodes)
}

// inLayers is so many bytes, by a source that knows all parts.
func inLayers(bytes int64) usage.DiskUse { return measuretest.PartsOf(false, bytes, 0, 0, 0) }

// steps returns a function that has the last value whose time has come.
func steps(values map[time.Duration]int64) func(time.Duration) int64 {
	return func(since time.Duration) int64 {
		best, value := time.Duration(-1), int64(0)
		for at, v := range values {
			if at <= since && at > best {
				best, value = at, v
			}
		}
		return value
	}
}

// sloped goes from one value to the other in a time that begins at from.
func sloped(from, over time.Duration, first, last int64) func(time.Duration) int64 {
	return func(since time.Duration) int64 {
		share := min(1, max(0, float64(since-from)/float64(over)))
		return first + int64(share*float64(last-first))
	}
}

// threshold adds a threshold of the policy.
func (n *world) threshold(signal pressure.Signal, quantity pressure.Quantity, hard bool, grace ...time.Duration) {
	t := pressure.Threshold{Signal: signal, Quantity: quantity, Hard: hard}
	for _, g := range grace {
		t.Grace = g
	}
	n.policy.Thresholds = append(n.policy.Thresholds, t)
}

// line makes the policy's first threshold one at so many MiB.
func (n *world) line(amount int64) { n.policy.Thresholds[0].Quantity = mebi(amount) }

func mebi(amount int64) pressure.Quantity { return pressure.Absolute(amount * Mebi) }

// limit is so many evictions of any pod in a minute, and of an owner's in an hour; 0 is no limit.
func (n *world) limit(perMinute, perOwner int32) {
	n.policy.Limits = config.Limits{EvictionsPerMinute: perMinute, PerOwnerPerHour: perOwner}
}

// Changes of a pod.

func bare(p *corev1.Pod)    { p.OwnerReferences = nil }
func high(p *corev1.Pod)    { p.Spec.Priority = new(int32(1000)) }
func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func ofOwner(p *corev1.Pod) { p.OwnerReferences[0].UID = "rs-of-all" }
func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// softAndHard has a soft threshold of a fifth above the hard one, and a grace period of 3 s below that.
func (n *world) softAndHard() {
	n.policy.HardGrace = 3
	n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.2), false)
}

// untilExhaustion protects pods within their requests until half of the line, 100 MiB, is left.
func (n *world) untilExhaustion() {
	n.policy.WithinRequests = decide.WithinRequestsUntilExhaustion
	n.line(100)
}

// reclaim is what the kubelet removes of images: below 15 % of imagefs and 10 % of nodefs.
func reclaim() kubeletconfig.Configuration {
	return kubeletconfig.Configuration{Thresholds: []pressure.Threshold{
		{Signal: pressure.NodeFSAvailable, Quantity: pressure.Fraction(0.10), Hard: true},
		{Signal: pressure.ImageFSAvailable, Quantity: pressure.Fraction(0.15), Hard: true},
	}}
}

// churn runs a pod of so many MiB each period, which terminates at once and ends when the node's pods do. The
// UIDs differ.
func (n *world) churn(memory int64, every, during time.Duration) {
	for i := range int(during / every) {
		time.AfterFunc(time.Duration(i)*every, func() {
			name := fmt.Sprintf("churn-%d", i)
			n.Run(name, memory, memory)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.terminate("uid-" + name)
		})
	}
}

// hides keeps a pod from the list, unless it is listed; nil is never.
func (n *world) hides(name string, listed func() bool) {
	n.hidden = func(p *nodepods.Pod) bool { return p.Name == name && (listed == nil || !listed()) }
}

// blindAfter makes a signal unknown after so many samples; before, an absent one has 9 left.
func (n *world) blindAfter(signal pressure.Signal, sees int) func(*pressure.Sample) {
	return func(s *pressure.Sample) {
		if n.samples > sees {
			s.Observations[signal] = pressure.Observation{Err: errPlanted()}
		} else if s.Of(signal).State == pressure.Absent {
			s.Observations[signal] = pressure.Observation{State: pressure.Known, Available: 9, Capacity: 9}
		}
	}
}

// hadItsTurn remembers that a pod of an owner was evicted, and that one of an owner may be in an hour.
func (n *world) hadItsTurn(owner string) {
	n.limit(0, 1)
	n.option = func(o *agent.Options) {
		o.Remembered.Cooldown.Accepted = []cooldown.Accepted{{Owner: owner, At: n.began}}
	}
}

// mirrorOf makes a pod the mirror of a static one.
func mirrorOf(uid string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{"kubernetes.io/config.hash": uid, "kubernetes.io/config.mirror": uid}
	}
}
