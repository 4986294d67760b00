package sim

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// Arm is who acts on the node.
type Arm string

// The arms.
const (
	// Both: evictd, and the kubelet with its defaults behind it.
	Both Arm = "evictd"
	// KubeletAlone acts without evictd.
	KubeletAlone Arm = "kubelet alone"
	// Ideal ends, at each hard line and at once, the pods that grew most, which no agent can know of: its victims are taken
	// for the smallest set that suffices.
	Ideal Arm = "ideal"
)

// What ends a pod, or a container of it.
const (
	ByEvictd  = "evictd"
	ByKubelet = "kubelet"
	ByKernel  = "kernel"
	ByIdeal   = "ideal"
)

// Event is something that happened on the node.
type Event struct {
	// At is the time since the beginning.
	At time.Duration
	// Pod is namespace/name; "" for what is about none.
	Pod string
	// Text says what happened, in a clause. It is empty for a decision.
	Text string
	// Decision is one of evictd's; nil for all else.
	Decision *decide.Decision
}

// Result is what came of a scenario.
type Result struct {
	// Victims are the pods that were ended, by what: ByEvictd and so on; namespace/name, in their order.
	Victims map[string][]string `json:"victims"`
	// Innocents are those of all that used no more than their request when they were ended, OOM kills included.
	Innocents []string `json:"innocents,omitempty"`
	// OOMKills is how many containers the kernel ended for want of memory.
	OOMKills int `json:"oomKills"`
	// Below is how long something was below a hard line of evictd's, in steps of [Moment].
	Below metav1.Duration `json:"below"`
}

// Moment is how often use changes.
const Moment = 100 * time.Millisecond

// Play plays the scenario on a node of its own, for one arm, and tells what happens as it happens. It must be called in a
// bubble of testing/synctest, and ends early with the error of interrupted, such as the Err of a context. Equal seeds give
// equal figures. Any other error is the agent's.
func (s *Scenario) Play(interrupted func() error, arm Arm, policy agent.Policy, seed uint64, tell func(Event)) (*Result, error) {
	p := &play{
		Node: New(0), scenario: s, arm: arm, tell: tell, began: time.Now(), lives: map[string]*life{}, numbers: map[string]int{},
		policy: policy, seed: seed, result: Result{Victims: map[string][]string{}},
	}
	p.prepare()
	running, stop := context.WithCancel(context.Background()) // nothing in the bubble may wait for what is outside
	defer stop()
	ended := make(chan error, 1)
	if arm == Both {
		options := p.Options(policy, &File{})
		options.Recorder, options.Random = teller{recorder{p.Node}, p}, rand.New(rand.NewPCG(seed, 1)).Float64 //nolint:gosec // no secret
		options.KubeletGap = func(time.Time) int64 {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.cached()
		}
		if s.changes != nil {
			s.changes(&options)
		}
		go func() { ended <- p.runs(running, options) }()
	} else {
		ended <- nil
	}
	for p.since() < s.Duration.Duration && interrupted() == nil {
		time.Sleep(Moment)
		p.step()
	}
	p.mu.Lock()
	p.state()
	p.tell = func(Event) {} // what is due later is of no interest
	p.mu.Unlock()
	stop()
	return &p.result, cmp.Or(<-ended, interrupted())
}

// runs is evictd. One that is killed leaves its file, which its next container finds. mu is not held.
func (p *play) runs(ctx context.Context, options agent.Options) error {
	file := &File{}
	for i := 0; ; i++ {
		life, killed := context.WithCancel(ctx)
		own, left := options, file
		own.Save = file.Save
		if i < len(p.scenario.killed) {
			time.AfterFunc(p.scenario.killed[i]-p.since(), func() { left = file.Copy(); killed() })
		}
		err := agent.New(own).Run(life)
		killed()
		if err != nil || ctx.Err() != nil {
			return err
		}
		if options.Remembered, err = left.Load(); err != nil {
			return err
		}
		file = left
	}
}

// play is a scenario that is played. Its methods are called with the node's mu held, unless they say otherwise.
type play struct {
	*Node
	scenario *Scenario
	arm      Arm
	tell     func(Event)
	began    time.Time
	seed     uint64
	policy   agent.Policy     // evictd's
	lives    map[string]*life // by UID
	numbers  map[string]int   // of the last pod, by namespace/name of its workload
	starts   []start
	crossed  [pressure.SignalCount]bool
	kubelet  kubelet
	told     int           // decisions
	refusal  *evict.Result // of a fault of the API server; nil while it has none
	result   Result
}

// start is a pod that starts later.
type start struct {
	at time.Time
	of *Workload
}

// life is a pod of a workload.
type life struct {
	of      *Workload
	key     string
	uid     string
	started time.Time // of its container
	created time.Time
	down    time.Time // until then its container does not run
	kills   int
	noise   float64
	by      string // what ends it; "" while nothing does
}

// prepare puts the pods on the node, and the node's faults.
func (p *play) prepare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capacity, p.budgets = p.scenario.Node.Memory.Value(), map[string]evict.Budget{}
	p.sampled, p.answer, p.hasKubelets, p.countsCache = p.sample, p.answers, true, p.policy.MemoryAvailable == pressure.WorkingSet
	p.endsAfter = func(uid string, grace int64) time.Duration {
		l := p.lives[uid]
		p.ended(l, ByEvictd)
		return min(l.stops(), time.Duration(grace)*time.Second)
	}
	for i := range p.scenario.Pods {
		w := &p.scenario.Pods[i]
		for range w.replicas() {
			p.starts = append(p.starts, start{p.began.Add(w.Starts.Duration), w})
		}
	}
	if v := p.scenario.Node.Disk; v != nil {
		p.disk = &Disk{node: p.Node, measures: p.onDisk}
		p.images.counted = func() measure.UnusedImages {
			return measure.UnusedImages{Bytes: p.unusedImages(time.Now()), OnNodeFS: true}
		}
	}
	p.move(p.began)
	p.state()
	for _, f := range p.scenario.API {
		p.After(f.After.Duration, func() { p.fault(f.Fault, true) })
		p.After(f.After.Duration+f.For.Duration, func() { p.fault(f.Fault, false) })
	}
}

func (p *play) since() time.Duration { return time.Since(p.began) }

func (p *play) say(pod, format string, values ...any) {
	p.tell(Event{At: p.since(), Pod: pod, Text: fmt.Sprintf(format, values...)})
}

// state says how many pods run, and what is available.
func (p *play) state() {
	sample := p.observe(time.Now())
	said := []string{fmt.Sprintf("%d pods run", len(p.lives))}
	for _, signal := range []pressure.Signal{pressure.MemoryAvailable, pressure.AllocatableMemoryAvailable, pressure.NodeFSAvailable} {
		if o := sample.Of(signal); o.State == pressure.Known {
			said = append(said, fmt.Sprintf("%s is %s of %s", signal, rank.Bytes(o.Available), rank.Bytes(o.Capacity)))
		}
	}
	p.say("", "%s", strings.Join(said, ", "))
}

// step lets a moment pass. mu is not held.
func (p *play) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.move(now)
	if p.arm == Ideal {
		p.ideal(now)
	}
	p.kernel(now)
	p.account(now)
	if p.scenario.watches != nil {
		p.scenario.watches(p)
	}
	if p.arm != Ideal {
		p.kubelet.step(p, now)
	}
}

// move starts the pods that are due, ends those that are gone, and moves the use of all to now.
func (p *play) move(now time.Time) {
	for _, uid := range slices.Sorted(maps.Keys(p.lives)) {
		if l := p.lives[uid]; p.pods[uid] == nil {
			p.gone(l, now)
		}
	}
	due, later := []start{}, []start{}
	for _, s := range p.starts {
		if s.at.After(now) || p.kubelet.refuses(s.of, now) {
			later = append(later, s)
		} else {
			due = append(due, s)
		}
	}
	p.starts = later
	for _, s := range due {
		p.run(s.of, now)
	}
	p.host = p.scenario.Node.System.At(now.Sub(p.began))
	for uid, l := range p.lives {
		pod := p.pods[uid]
		if pod.noCgroup || now.Before(l.down) {
			pod.memory, pod.cache = 0, 0
			continue
		}
		pod.memory = int64(l.noise * float64(l.of.Memory.At(now.Sub(l.started))))
		pod.cache = l.of.Cache.At(now.Sub(l.started))
	}
	// The kernel drops page cache before it is short, and keeps a part of the rest inactive (inactive_is_low of
	// mm/vmscan.c: an int_sqrt(10 * GiB)th of what is active).
	room := float64(max(0, p.capacity-p.host-p.held()))
	ratio := max(1, math.Floor(math.Sqrt(10*room/(1<<30))))
	if active := room * ratio / (ratio + 1); float64(p.cached()) > active {
		share := active / float64(p.cached())
		for _, pod := range p.pods {
			pod.cache = int64(share * float64(pod.cache))
		}
	}
}

// run starts the next pod of a workload.
func (p *play) run(w *Workload, now time.Time) {
	namespace := cmp.Or(w.Namespace, metav1.NamespaceDefault)
	p.numbers[namespace+"/"+w.Name]++
	l := &life{of: w, key: namespace + "/" + w.Name + "-" + strconv.Itoa(p.numbers[namespace+"/"+w.Name]), started: now, created: now}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(l.key))                                         // the same pod is the same in each arm
	l.noise = 1 - 0.04*rand.New(rand.NewPCG(p.seed, hash.Sum64())).Float64() //nolint:gosec // no secret
	l.uid = "uid-" + l.key
	p.lives[l.uid] = l
	p.put(l.key, w)
	if w.MaxUnavailable != nil {
		p.budgets[namespace+"/"+w.Name] = evict.Budget{Name: w.Name, Desired: int64(w.replicas() - *w.MaxUnavailable), Healthy: int64(w.replicas())}
	}
	if p.since() > 0 {
		p.say(l.key, "starts")
	}
}

// put puts a pod of a workload on the node.
func (p *play) put(key string, w *Workload) {
	namespace := cmp.Or(w.Namespace, metav1.NamespaceDefault)
	pod := newPod(key[len(namespace)+1:], w.request())
	pod.Namespace, pod.UID, pod.Annotations, pod.CreationTimestamp = namespace, types.UID("uid-"+key), w.Annotations, metav1.Now()
	pod.Labels = map[string]string{"app": w.Name}
	pod.OwnerReferences[0].Name, pod.OwnerReferences[0].UID = w.Name, types.UID(namespace+"/"+w.Name)
	switch pod.OwnerReferences[0].Kind = cmp.Or(w.Controller, "ReplicaSet"); w.Controller {
	case "None":
		pod.OwnerReferences = nil
	case "DaemonSet":
		pod.OwnerReferences[0].APIVersion = "apps/v1"
		pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists}}
	}
	pod.Spec.Priority = &w.Priority
	pod.Spec.TerminationGracePeriodSeconds = new(int64(w.grace().Seconds()))
	if limit := w.Limit; limit.Sign() > 0 {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: limit}
	}
	p.pods[string(pod.UID)] = &Pod{api: pod}
}

func (w *Workload) replicas() int32 { return ptr.Deref(w.Replicas, 1) }

func (w *Workload) grace() time.Duration {
	return ptr.Deref(w.Grace, metav1.Duration{Duration: 30 * time.Second}).Duration
}

// stops returns how long the pod needs to end once it is asked to.
func (l *life) stops() time.Duration {
	return ptr.Deref(l.of.Stops, metav1.Duration{Duration: time.Second}).Duration
}

// gone is the end of a pod, whose controller makes the next one.
func (p *play) gone(l *life, now time.Time) {
	delete(p.lives, l.uid)
	p.say(l.key, "has ended")
	if after := ptr.Deref(l.of.Replaced, metav1.Duration{Duration: 5 * time.Second}).Duration; after >= 0 && l.of.Controller != "None" {
		p.starts = append(p.starts, start{now.Add(after), l.of})
	}
}

// ended counts a pod that something ends, or a container of it; once for a pod that is ended already. While a
// disk is short no pod is innocent: requests are of memory.
func (p *play) ended(l *life, by string) {
	if l.by != "" {
		return
	}
	if by != ByKernel { // which ends a container alone
		l.by = by
	}
	p.result.Victims[by] = append(p.result.Victims[by], l.key)
	sample, memory := p.observe(time.Now()), p.pods[l.uid].memory
	ofDisk := slices.ContainsFunc(p.policy.Thresholds, func(t pressure.Threshold) bool { return t.Signal.OnDisk() && short(&sample, t) })
	if memory > 0 && memory <= l.of.request() && !ofDisk {
		p.result.Innocents = append(p.result.Innocents, l.key)
	}
}

// request is of memory in bytes: the API server takes the limit where there is none.
func (w *Workload) request() int64 {
	if w.Request.IsZero() {
		return w.Limit.Value()
	}
	return w.Request.Value()
}

// held returns what pods hold of the memory that cannot be reclaimed.
func (p *play) held() (sum int64) {
	for _, pod := range p.pods {
		sum += pod.memory
	}
	return sum
}

func (p *play) cached() (sum int64) {
	for _, pod := range p.pods {
		sum += pod.cache
	}
	return sum
}

// account counts a moment below a hard line of evictd's, and says where a line is crossed.
func (p *play) account(now time.Time) {
	sample, below := p.observe(now), false
	for _, t := range p.policy.Thresholds {
		if !t.Hard {
			continue
		}
		is := short(&sample, t)
		below = below || is
		if is != p.crossed[t.Signal] {
			o := sample.Of(t.Signal)
			p.say("", "%s is %s, %s evictd's hard line of %s", t.Signal, rank.Bytes(o.Available),
				map[bool]string{true: "below", false: "above"}[is], rank.Bytes(t.Quantity.Of(o.Capacity)))
		}
		p.crossed[t.Signal] = is
	}
	if below {
		p.result.Below.Duration += Moment
	}
}

// short reports whether a threshold is hard, and its signal below it.
func short(s *pressure.Sample, t pressure.Threshold) bool {
	o := s.Of(t.Signal)
	return t.Hard && o.State == pressure.Known && o.Available < t.Quantity.Of(o.Capacity)
}

// sample adds the signals that the node of a story does not have.
func (p *play) sample(s *pressure.Sample) {
	if limit := p.scenario.Node.PodsLimit.Value(); limit > 0 {
		available := limit - p.held()
		if p.countsCache {
			available -= p.cached()
		}
		s.Observations[pressure.AllocatableMemoryAvailable] = pressure.Observation{State: pressure.Known, Available: available, Capacity: limit}
	}
	v := p.scenario.Node.Disk
	if v == nil {
		return
	}
	capacity := v.Capacity.Value()
	available := capacity - v.System.At(s.Time.Sub(p.began)) - p.unusedImages(s.Time)
	for uid, l := range p.lives {
		if pod := p.pods[uid]; pod != nil && !pod.noCgroup { // it may have ended since the last step
			available -= l.of.Disk.At(s.Time.Sub(l.created))
		}
	}
	space := pressure.Observation{State: pressure.Known, Available: max(0, available), Capacity: capacity, Device: 1}
	s.Observations[pressure.NodeFSAvailable], s.Observations[pressure.ImageFSAvailable] = space, space
}

// unusedImages returns what images hold that no pod uses.
func (p *play) unusedImages(now time.Time) int64 {
	return max(0, p.scenario.Node.Disk.UnusedImages.At(now.Sub(p.began))-p.kubelet.removed)
}

// onDisk is what the pods use of the disk, as the kubelet tells.
func (p *play) onDisk() (map[string]usage.DiskUse, error) {
	now := time.Now()
	all := map[string]usage.DiskUse{}
	for uid, l := range p.lives {
		var parts usage.Parts
		for part := range parts {
			parts[part].BytesKnown, parts[part].InodesKnown = true, true
		}
		parts[usage.Layers].Bytes = l.of.Disk.At(now.Sub(l.created))
		all[uid] = usage.DiskUse{NodeFS: parts, ImageFS: parts, Time: now}
	}
	return all, nil
}

// teller tells evictd's decisions. It implements [agent.Recorder].
type teller struct {
	recorder
	play *play
}

// Decision tells what the node keeps.
func (t teller) Decision(d *decide.Decision) {
	t.recorder.Decision(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	if kept := len(t.decisions); kept > t.play.told {
		t.play.told = kept
		t.play.tell(Event{At: d.Time.Sub(t.play.began), Decision: d})
	}
}

// Likely tells which pod a soft threshold would evict.
func (t teller) Likely(d *decide.Decision, first *decide.Attempt) {
	left := d.Pressure.Threshold.Grace - d.Pressure.SampleTime.Sub(d.Pressure.Since)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.play.say(first.Entry.Pod.Key(), "is likely to be evicted in %v: %s is below evictd's soft line", left.Round(time.Second), d.Pressure.Threshold.Signal)
}
