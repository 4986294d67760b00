package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// scenario is one incident, with the pods that may be evicted in it.
type scenario struct {
	name string
	// prepare creates the pods, and a threshold that is not met yet.
	prepare func(ctx context.Context, st *stage) error
	// begin are the pods that are told to take what they take.
	begin []string
	// victims are the apps whose pods may be evicted, atLeast how many must be, within that time.
	victims []string
	atLeast int
	within  time.Duration
	// calm is how long after that a further victim would be wrong.
	calm time.Duration
}

// headroom is how many MiB the pods may use together without pressure.
const headroom = 700

// scenarios returns all of them.
func scenarios() []scenario {
	const soon, slowly = 2 * time.Minute, 5 * time.Second
	return []scenario{
		{"a pod leaks beside one within its request", leak, []string{"leak"}, []string{"leak"}, 1, soon, slowly},
		{"the pod that leaks has a budget", budgeted, []string{"guarded", "next"}, []string{"next"}, 1, soon, slowly},
		{"a pod takes memory each time it comes back", returning, nil, []string{"again"}, 2, soon, 0},
		{"the victim ends slowly", slowEnd, []string{"slow"}, []string{"slow"}, 1, soon, slowly},
		{"a pod fills its emptyDir", filling, []string{"filler"}, []string{"filler"}, 1, soon, slowly},
		{"a pod reads more than its own limit", withinLimit, []string{"reader"}, nil, 0, 0, 15 * time.Second},
	}
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// leak: one pod exceeds its request, another uses more and stays within its own.
func leak(ctx context.Context, st *stage) error {
	if err := st.line(ctx, node.PodMemory, headroom); err != nil {
		return err
	}
	if err := st.deploy(ctx, node.Workload{Name: "within", UsesMiB: 450, AsksMiB: 600, LimitMiB: 700}, false); err != nil {
		return err
	}
	return st.deploy(ctx, node.Workload{Name: "leak", UsesMiB: 400, AsksMiB: 10, LimitMiB: 500, Flags: []string{"--memory-rate=100Mi"}}, true)
}

// budgeted: the first in the order may not be evicted, so the next one is.
func budgeted(ctx context.Context, st *stage) error {
	if err := st.line(ctx, node.PodMemory, headroom); err != nil {
		return err
	}
	for _, w := range []node.Workload{
		{Name: "guarded", UsesMiB: 500, AsksMiB: 10, LimitMiB: 600}, {Name: "next", UsesMiB: 450, AsksMiB: 10, LimitMiB: 600},
	} {
		if err := st.deploy(ctx, w, true); err != nil {
			return err
		}
	}
	if err := st.node.Budget(ctx, st.namespace, "guarded", 1); err != nil {
		return fmt.Errorf("guarding a pod: %w", err)
	}
	return nil
}

// returning: a Deployment whose pods take their memory at once.
func returning(ctx context.Context, st *stage) error {
	if err := st.line(ctx, node.PodMemory, headroom); err != nil {
		return err
	}
	if err := st.deploy(ctx, node.Workload{Name: "calm", UsesMiB: 200, AsksMiB: 300, LimitMiB: 400}, false); err != nil {
		return err
	}
	return st.deploy(ctx, node.Workload{Name: "again", UsesMiB: 800, AsksMiB: 10, LimitMiB: 900, Flags: []string{"--start-delay=3s"}}, false)
}

// slowEnd: one victim, which takes a while to end; a second one would be wrong.
func slowEnd(ctx context.Context, st *stage) error {
	if err := st.line(ctx, node.PodMemory, headroom); err != nil {
		return err
	}
	if err := st.deploy(ctx, node.Workload{Name: "over", UsesMiB: 300, AsksMiB: 100, LimitMiB: 400}, false); err != nil {
		return err
	}
	return st.deploy(ctx, node.Workload{Name: "slow", UsesMiB: 600, AsksMiB: 10, LimitMiB: 700, Flags: []string{"--term-delay=12s"}}, true)
}

// filling: a pod fills its emptyDir on the node's disk, another holds a little.
func filling(ctx context.Context, st *stage) error {
	const untilMet, modestMiB, fillerMiB = 110, 20, 160
	if err := st.line(ctx, node.DiskSpace, untilMet); err != nil {
		return err
	}
	for _, w := range []struct {
		name string
		mib  int
	}{{"modest", modestMiB}, {"filler", fillerMiB}} {
		err := st.deploy(ctx, node.Workload{
			Name: w.name, AsksMiB: 10, LimitMiB: 400,
			Flags: []string{"--write=/data/file", fmt.Sprintf("--write-bytes=%dMi", w.mib)},
			Change: func(spec *corev1.PodSpec) {
				node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
			},
		}, w.name == "filler")
		if err != nil {
			return err
		}
	}
	return nil
}

// withinLimit: a pod reads a file of twice its limit again and again; the node is short of nothing.
func withinLimit(ctx context.Context, st *stage) error {
	if err := st.line(ctx, node.NodeMemory, 3000); err != nil {
		return err
	}
	if err := st.deploy(ctx, node.Workload{Name: "over", UsesMiB: 200, AsksMiB: 10, LimitMiB: 300}, false); err != nil {
		return err
	}
	return st.deploy(ctx, node.Workload{
		Name: "reader", UsesMiB: 10, AsksMiB: 50, LimitMiB: 100,
		Flags: []string{"--cache=/data/cache", "--cache-bytes=200Mi"},
		Change: func(spec *corev1.PodSpec) {
			node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		},
	}, true)
}

// line puts a threshold in force that is met when that many MiB more are used.
func (st *stage) line(ctx context.Context, signal string, below int64) error {
	line, err := st.node.LineBelow(ctx, signal, below)
	if err != nil {
		return fmt.Errorf("choosing a threshold: %w", err)
	}
	if err := st.node.Configure(ctx, st.policy(signal, line)); err != nil {
		return fmt.Errorf("putting a threshold in force: %w", err)
	}
	return nil
}

// policy is a threshold, with short waits: the rounds are short too.
func (*stage) policy(signal string, line int64) node.Policy {
	return node.Policy{
		Signal: signal, Line: line, Extra: fmt.Sprintf("evictionPressureTransitionPeriod: %v", transition),
	}
}

// deploy makes a Deployment and waits until its pod runs. A pod that waits takes nothing before it
// is told to, and its replacement never does.
func (st *stage) deploy(ctx context.Context, w node.Workload, waits bool) error {
	if waits {
		change := w.Change
		w.Flags = append([]string{"--start-file=/control/" + w.Name, "--log-file=/control/" + w.Name + lines}, w.Flags...)
		w.Change = func(spec *corev1.PodSpec) {
			node.Mount(spec, "control", "/control", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: st.control}})
			if change != nil {
				change(spec)
			}
		}
	}
	if err := w.Deploy(ctx, st.node, st.namespace); err != nil {
		return fmt.Errorf("deploying: %w", err)
	}
	if _, err := st.node.Running(ctx, st.namespace, w.Name); err != nil {
		return fmt.Errorf("deploying: %w", err)
	}
	return nil
}
