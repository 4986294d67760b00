package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/assess"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
	"github.com/evictd/evictd/test/cluster"
)

// The steps of a tick at which the agent is killed.
const (
	beforeTheSample     = "before the sample"
	afterTheSample      = "after the sample"
	afterTheJudgement   = "after the judgement"
	beforeThePods       = "before the pods are listed"
	afterTheUsage       = "after the pods' usage is read"
	beforeTheSecondLook = "before the second look at the node"
	afterTheSecondLook  = "after the second look at the node"
	atTheIntent         = "when the intent is recorded"
	beforeTheRequest    = "before the request is sent"
	afterTheAnswer      = "after the API server's answer"
	beforeTheDecision   = "before the decision is recorded"
	afterTheDecision    = "after the decision is recorded"
	onTheNextTick       = "on the next tick, while the victim is in flight"
	// With their own features switched on.
	afterTheTaint  = "after the node has its taint"
	afterThePermit = "after a permit was acquired"
	afterTheDelete = "after a delete that bypasses a budget"
)

func steps() []string {
	return []string{
		beforeTheSample, afterTheSample, afterTheJudgement, beforeThePods, afterTheUsage, beforeTheSecondLook,
		afterTheSecondLook, atTheIntent, beforeTheRequest, afterTheAnswer, beforeTheDecision, afterTheDecision, onTheNextTick,
		afterTheTaint, afterThePermit, afterTheDelete,
	}
}

// gracelessSteps returns the steps at which a pod with a grace period of 0 may be in flight:
// the API server no longer lists it.
func gracelessSteps() []string {
	return []string{afterTheAnswer, beforeTheDecision, afterTheDecision, onTheNextTick, afterTheDelete}
}

// stepVariable makes the test binary an agent that kills itself at a step; "none" is an
// agent that does not.
const (
	stepVariable = "EVICTD_TEST_KILL_AT"
	rootVariable = "EVICTD_TEST_HOST_ROOT"
	nodeVariable = "EVICTD_TEST_NODE"
	// stateVariable is the state directory; "" keeps nothing.
	stateVariable = "EVICTD_TEST_STATE_DIR"
	// optInVariable names a step whose feature is switched on.
	optInVariable = "EVICTD_TEST_OPT_IN"
)

// mortal holds an agent's parts. Each of them ends the process, as kill -9 does, when the
// step is reached. Everything else is the agent's own.
type mortal struct {
	agent.Sampler
	assess.Pods
	measure.Cgroups
	execute.Evictor

	step      string
	collected bool // this tick has read the pods' usage
}

func (m *mortal) reach(step string) {
	if m.step == step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // wait for the end
	}
}

// Sample reads the node: first in a tick, and once more before a request.
func (m *mortal) Sample(now time.Time) pressure.Sample {
	if m.collected {
		m.reach(beforeTheSecondLook)
		defer m.reach(afterTheSecondLook)
	} else {
		m.reach(beforeTheSample)
		defer m.reach(afterTheSample)
	}
	m.collected = false
	return m.Sampler.Sample(now)
}

// List lists the pods.
func (m *mortal) List() []*nodepods.Pod {
	m.reach(beforeThePods)
	return m.Pods.List()
}

// Collect reads the pods' usage.
func (m *mortal) Collect(into []usage.Pod) ([]usage.Pod, error) {
	read, err := m.Cgroups.Collect(into)
	m.reach(afterTheUsage)
	m.collected = true
	return read, err
}

// Evict evicts a pod.
func (m *mortal) Evict(ctx context.Context, r evict.Request) evict.Result {
	m.reach(beforeTheRequest)
	result := m.Evictor.Evict(ctx, r)
	m.reach(afterTheAnswer)
	if result.Outcome == evict.Deleted {
		m.reach(afterTheDelete)
	}
	return result
}

// mortalTaints maintains the node's taint and may end the process.
type mortalTaints struct {
	*taint.Keeper

	parts *mortal
}

// Settled waits for the taint.
func (t mortalTaints) Settled(ctx context.Context) error {
	err := t.Keeper.Settled(ctx)
	for err != nil && t.parts.step == afterTheTaint { // the step must be reached, however slow the API server is
		err = t.Keeper.Settled(context.WithoutCancel(ctx))
		time.Sleep(50 * time.Millisecond)
	}
	if err == nil {
		t.parts.reach(afterTheTaint)
	}
	return err
}

// mortalPermits is a semaphore that may end the process.
type mortalPermits struct {
	*permits.Semaphore

	parts *mortal
}

// Acquire acquires a permit.
func (b mortalPermits) Acquire(ctx context.Context, r permits.Request) permits.Answer {
	take := b.Semaphore.Acquire
	if b.parts.step == afterThePermit { // the step must be reached, however slow the API server is
		take = func(ctx context.Context, r permits.Request) permits.Answer { return surely(ctx, b.Semaphore, r) }
	}
	answer := take(ctx, r)
	if answer.Verdict == permits.Granted {
		b.parts.reach(afterThePermit)
	}
	return answer
}

// witness records nothing.
type witness struct{ *mortal }

func (w witness) Sample(_ *pressure.Sample, verdict *pressure.Verdict) {
	if len(verdict.Pressures) > 0 {
		w.reach(afterTheJudgement)
	}
}

func (w witness) Intent(*decide.Decision, *decide.Attempt) {
	w.reach(atTheIntent)
}

// Decision ends the process at a decision that has evicted a pod. Decisions before that,
// while the pods are not known yet, evict none.
func (w witness) Decision(d *decide.Decision) {
	if d.Verb == decide.Acted {
		w.reach(beforeTheDecision)
		w.reach(afterTheDecision)
	}
}

func (w witness) Ledger(_ time.Time, bookings []inflight.Booking) {
	if len(bookings) > 0 {
		w.reach(onTheNextTick)
	}
}

func (witness) Tick(time.Time, time.Duration)    {}
func (witness) IncidentBegan(*incident.Incident) {}
func (witness) IncidentEnded(*incident.Incident) {}
func (witness) ReadError(string, error)          {}
func (witness) VictimEnded(*inflight.Ended)      {}
func (witness) LeftAlone(_, _, _ int)            {}
func (witness) Acting(acting.State)              {}
func (witness) Tainted(_, _ []string, _ bool)    {}
func (witness) TaintError(error)                 {}
func (witness) Permit(permits.Verdict)           {}
func (witness) PermitsHeld(int)                  {}
func (witness) PermitError(error)                {}

// liveOnce is the process: it runs until it is killed or told to end.
func liveOnce() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("reading the credentials: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	root := os.Getenv(rootVariable)
	tree, err := usage.Open(filepath.Join(root, "sys/fs/cgroup"), "kubepods.slice")
	if err != nil {
		return fmt.Errorf("opening the pods' cgroup: %w", err)
	}
	node, err := pressure.Open(pressure.Options{HostRoot: root, Kubepods: "kubepods.slice", Signals: []pressure.Signal{pressure.MemoryAvailable}})
	if err != nil {
		return fmt.Errorf("preparing to read the node: %w", err)
	}
	pods := nodepods.New(client.CoreV1().Pods(metav1.NamespaceAll), nodepods.Options{NodeName: os.Getenv(nodeVariable), Now: time.Now})
	evictor := evict.New(client.CoreV1().RESTClient(), time.Now)
	parts := &mortal{Sampler: node, Pods: pods, Cgroups: tree, Evictor: evictor, step: os.Getenv(stepVariable)}
	options := agent.Options{
		Policy: agent.Policy{
			Policy: decide.Policy{
				Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(500 * mebibyte), Hard: true}},
				// The pods stay below their requests.
				WithinRequests: decide.WithinRequestsNever,
			},
			Pacing: pressure.Pacing{Min: 10 * time.Millisecond, Max: time.Second},
		},
		Sampler: parts, Pods: parts, Cgroups: parts, Evictor: parts, Recorder: witness{parts},
		Random: func() float64 { return 0 },
	}
	remember(&options)
	beside := optIn(&options, parts, client)
	one, err := agent.New(options)
	if err != nil {
		return fmt.Errorf("building the agent: %w", err)
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return pods.Run(ctx) })
	all.Go(func() error { return beside(ctx) })
	all.Go(func() error { return one.Run(ctx) })
	return all.Wait()
}

// remember gives the agent the state of the previous one, as `evictd run` does.
func remember(options *agent.Options) {
	dir := os.Getenv(stateVariable)
	if dir == "" {
		return
	}
	own := state.Identity{BootID: "boot"}
	store := state.NewStore(state.Options{Dir: dir, Identity: own, Now: time.Now, OnFailure: func(f state.Failure, err error) {
		fmt.Fprintf(os.Stderr, "writing the state: %s %v\n", f, err)
	}})
	kept := func() (*state.State, error) { return state.Load(dir, own, time.Now()) }
	options.Memory = onDisk{store, kept}
	if remembered, err := kept(); err == nil {
		options.Remembered = remembered
	}
}

// onDisk waits until a request that is about to be sent is in the file, however slow the disk is:
// evictd sends it after [state.Patience], and the agent of a step may be killed right then.
type onDisk struct {
	*state.Store

	kept func() (*state.State, error)
}

// Save hands the state over; what it returns waits until its request is in the file.
func (d onDisk) Save(s state.State) func() {
	written := d.Store.Save(s)
	return func() {
		written()
		for {
			if kept, err := d.kept(); err == nil && len(kept.InDoubt) == len(s.InDoubt) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// optIn switches on the feature of a step and returns what must run for it.
func optIn(options *agent.Options, parts *mortal, client kubernetes.Interface) func(context.Context) error {
	name, quiet := os.Getenv(nodeVariable), witness{parts}
	switch os.Getenv(optInVariable) {
	case afterTheTaint:
		keeper := taint.New(taint.Options{Nodes: client.CoreV1().Nodes(), Node: name, Recorder: quiet})
		options.Taints, options.Policy.TaintNode = mortalTaints{keeper, parts}, true
		return keeper.Run
	case afterThePermit:
		one := permits.New(permits.Options{
			Leases: client.CoordinationV1().Leases(strings.TrimPrefix(name, "node-")), Node: name,
			Now: time.Now, Random: options.Random, Recorder: quiet, Restore: true,
		})
		options.Permits, options.Policy.Permits.PerWorkload = mortalPermits{one, parts}, 1
		return one.Run
	case afterTheDelete:
		options.Policy.BestEffort = true
	}
	return func(context.Context) error { return nil }
}

// lived starts such a process for the scene.
func (w *world) lived(h *host, step, optIn string) *exec.Cmd {
	w.t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), stepVariable+"="+step, stateVariable+"="+h.state, optInVariable+"="+optIn, rootVariable+"="+h.root, nodeVariable+"="+w.node, "KUBECONFIG="+shared.Kubeconfig())
	command.Stderr = os.Stderr
	w.must(command.Start())
	return command
}

// Guards invariant 9: an agent is killed at a step of its tick and restarted, with and
// without the state that it had written. The node is short of one pod's worth of memory, and
// the victim takes three seconds to end. Exactly one pod is evicted, by either of the two
// agents.
func TestInvariant09KilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range steps() {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			killedAt(t, step, t.TempDir(), func(*corev1.Pod) {})
		})
		t.Run(step+", in a new pod", func(t *testing.T) {
			t.Parallel()
			killedAt(t, step, "", func(*corev1.Pod) {})
		})
	}
	for _, step := range gracelessSteps() {
		t.Run(step+", without a grace period", func(t *testing.T) {
			t.Parallel()
			killedAt(t, step, t.TempDir(), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64) })
		})
	}
}

func killedAt(t *testing.T, step, stateDir string, change func(*corev1.Pod)) {
	t.Helper()
	w, h := newWorld(t), newHost(t)
	h.state = stateDir
	k := watchOver(w, h, map[string]int64{"large": 1024, "small": 700})
	k.takes(3 * time.Second)
	for name, holds := range k.held {
		h.group(groupOf(w.pod(name, 100, change)), holds)
		switch step {
		case afterThePermit:
			w.adopt(name)
		case afterTheDelete:
			w.budget(name, name)
		}
	}
	h.free(300)
	killed := w.lived(h, step, step)
	late := time.AfterFunc(cluster.Patiently(time.Minute), func() { _ = killed.Process.Signal(syscall.SIGTERM) })
	_ = killed.Wait()
	late.Stop()
	if ended, ok := killed.ProcessState.Sys().(syscall.WaitStatus); !ok || ended.Signal() != syscall.SIGKILL {
		t.Fatalf("the agent did not come to the step: %v", killed.ProcessState)
	}
	second := w.lived(h, "none", step)
	w.until("the pressure is over", func(context.Context) bool { return h.now() > 500 })
	time.Sleep(2 * time.Second) // time for a second victim
	w.must(second.Process.Signal(syscall.SIGTERM))
	if err := second.Wait(); err != nil {
		t.Errorf("the second agent: %v", err)
	}
	if got := k.taken(); !slices.Equal(got, []string{"large"}) {
		t.Errorf("evicted %v, want the large pod alone", got)
	}
	if stateDir == "" {
		return
	}
	kept, err := state.Load(stateDir, state.Identity{BootID: "boot"}, time.Now())
	w.must(err)
	counted := len(kept.Cooldown.Limits) + len(kept.InDoubt) // these will count as evictd's
	if counted != 1 {
		t.Errorf("%d evictions count against the limits, want the one: %+v", counted, kept)
	}
}

// adopt creates a ReplicaSet that adopts a pod.
func (w *world) adopt(name string) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	sets := w.client.AppsV1().ReplicaSets(w.namespace)
	_, err := sets.Create(w.t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() { _ = sets.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	w.until(name+" has an owner", func(ctx context.Context) bool {
		pod, err := w.client.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && metav1.GetControllerOf(pod) != nil
	})
}
