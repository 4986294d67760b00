package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
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
	onTheNextTick       = "on the next tick, while the victim is on its way"
)

func steps() []string {
	return []string{
		beforeTheSample, afterTheSample, afterTheJudgement, beforeThePods, afterTheUsage, beforeTheSecondLook,
		afterTheSecondLook, atTheIntent, beforeTheRequest, afterTheAnswer, beforeTheDecision, afterTheDecision, onTheNextTick,
	}
}

// stepVariable makes the test binary an agent that kills itself at a step; "none" is one
// that does not.
const (
	stepVariable = "EVICTD_TEST_KILL_AT"
	rootVariable = "EVICTD_TEST_HOST_ROOT"
	nodeVariable = "EVICTD_TEST_NODE"
)

// mortal is an agent's parts, each of which ends the process, as kill -9 does, when the
// step is reached. Everything else is the agent's own.
type mortal struct {
	agent.Sampler
	agent.Pods
	agent.Cgroups
	agent.Evictor

	step      string
	collected bool // this tick has read the pods' usage
}

func (m *mortal) reach(step string) {
	if m.step == step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing more happens
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
func (m *mortal) List() []*corev1.Pod {
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

// Evict asks for a pod.
func (m *mortal) Evict(ctx context.Context, r evict.Request) evict.Result {
	m.reach(beforeTheRequest)
	result := m.Evictor.Evict(ctx, r)
	m.reach(afterTheAnswer)
	return result
}

// witness records nothing.
type witness struct{ *mortal }

func (w witness) Sample(_ *pressure.Sample, verdict *pressure.Verdict) {
	if len(verdict.Pressures) > 0 {
		w.reach(afterTheJudgement)
	}
}

func (w witness) Intent(*agent.Decision, *agent.Attempt) {
	w.reach(atTheIntent)
}

func (w witness) Decision(*agent.Decision) {
	w.reach(beforeTheDecision)
	w.reach(afterTheDecision)
}

func (w witness) Ledger(_ time.Time, bookings []evict.Booking) {
	if len(bookings) > 0 {
		w.reach(onTheNextTick)
	}
}

func (witness) Tick(time.Time, time.Duration) {}
func (witness) ReadError(string, error)       {}
func (witness) VictimEnded(*agent.Ended)      {}
func (witness) LeftAlone(_, _ int)            {}

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
	pods, err := nodepods.New(client, nodepods.Options{NodeName: os.Getenv(nodeVariable), Now: time.Now})
	if err != nil {
		return fmt.Errorf("building the watch: %w", err)
	}
	parts := &mortal{
		Sampler: node, Pods: pods, Cgroups: tree, Evictor: evict.New(client.CoreV1().RESTClient(), time.Now),
		step: os.Getenv(stepVariable),
	}
	one, err := agent.New(agent.Options{
		Policy: agent.Policy{
			Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(500 * mebibyte), Hard: true}},
			Pacing:     pressure.Pacing{Min: 10 * time.Millisecond, Max: time.Second},
		},
		Sampler: parts, Pods: parts, Cgroups: parts, Evictor: parts, Recorder: witness{parts},
		Random: func() float64 { return 0 },
	})
	if err != nil {
		return fmt.Errorf("building the agent: %w", err)
	}
	watched := make(chan error, 1)
	go func() { watched <- pods.Run(ctx) }()
	return errors.Join(one.Run(ctx), <-watched)
}

// lived starts such a process for the scene.
func (w *world) lived(h *host, step string) *exec.Cmd {
	w.t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), stepVariable+"="+step, rootVariable+"="+h.root, nodeVariable+"="+w.node, "KUBECONFIG="+shared.Kubeconfig())
	command.Stderr = os.Stderr
	w.must(command.Start())
	return command
}

// Guards invariant 9: an agent is killed at a step of its tick and started again. The
// node is short of one pod's worth of memory, and the victim takes three seconds to end:
// one pod goes, whichever of the two agents asked for it.
func TestInvariant09KilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range steps() {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w, h := newWorld(t), newHost(t)
			k := watchOver(w, h, map[string]int64{"large": 1024, "small": 700})
			k.takes(3 * time.Second)
			for name, holds := range k.held {
				h.group(groupOf(w.pod(name, 100)), holds)
			}
			h.free(300)
			killed := w.lived(h, step)
			_ = killed.Wait()
			if ended, ok := killed.ProcessState.Sys().(syscall.WaitStatus); !ok || ended.Signal() != syscall.SIGKILL {
				t.Fatalf("the agent did not come to the step: %v", killed.ProcessState)
			}
			second := w.lived(h, "none")
			w.until("the pressure is over", func(context.Context) bool { return h.now() > 500 })
			time.Sleep(2 * time.Second) // for a second victim to show
			w.must(second.Process.Signal(syscall.SIGTERM))
			if err := second.Wait(); err != nil {
				t.Errorf("the second agent: %v", err)
			}
			if got := k.taken(); !slices.Equal(got, []string{"large"}) {
				t.Errorf("evicted %v, want the large pod alone", got)
			}
		})
	}
}
