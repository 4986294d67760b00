// Package fleet runs many agents in one process against one real API server, all of them
// under hard pressure at the same moment. The agents' requests to the API server are real:
// the watch of their node's pods, the evictions, the permits. Their nodes are simulated, and
// this package acts as the scheduler and the kubelets.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options configure a run; all must be set except Permits and Log.
type Options struct {
	// Config are the administrator's credentials.
	Config *rest.Config
	// Nodes is the number of agents, each on its own node.
	Nodes int
	// Workloads is the number of Deployments, each with a budget.
	Workloads int
	// PodsPerNode is the number of pods that each node starts with.
	PodsPerNode int
	// Victims is how many of them must end before the pressure is over.
	Victims int
	// Unavailable is the budgets' maxUnavailable, in pods.
	Unavailable int
	// Permits is how many permits each workload has; 0 sets no limit.
	Permits int
	// Patience is how long the pressure may last on all nodes.
	Patience time.Duration
	// Log receives the progress; nil discards it.
	Log io.Writer
}

// grace is the pods' grace period, of which they use all; startup is how long a replacement
// pod needs until it is ready.
const (
	grace   = 2 * time.Second
	startup = 2 * time.Second
)

// ErrPatience says that some node was still under pressure at the end.
var ErrPatience = errors.New("the pressure was not over in time")

// fleet is one run.
type fleet struct {
	options   Options
	client    kubernetes.Interface
	namespace string // the workloads'
	own       string // evictd's: the permits' Leases
	hands     *hands
	watcher   *watcher
	counts    *counts
	members   []*member
}

// Run creates nodes, workloads and agents, puts all nodes under pressure at once, waits
// until it is over and removes everything. The result, as far as it is known, is also
// returned with [ErrPatience].
func Run(ctx context.Context, options Options) (result *Result, err error) {
	if options.Log == nil {
		options.Log = io.Discard
	}
	config := rest.CopyConfig(options.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	f := &fleet{options: options, client: client, counts: &counts{}}
	defer func() { err = errors.Join(err, f.remove(context.WithoutCancel(ctx))) }()
	if err = f.make(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop, err := f.start(ctx)
	defer func() { cancel(); err = errors.Join(err, stop()) }()
	if err != nil {
		return nil, err
	}
	return f.press(ctx)
}

// say prints a sentence.
func (f *fleet) say(format string, arguments ...any) {
	_, _ = fmt.Fprintf(f.options.Log, format+"\n", arguments...)
}

// press makes every node short of memory at the same moment.
func (f *fleet) press(ctx context.Context) (*Result, error) {
	f.hands.settled()
	f.counts.reset()
	begin := time.Now()
	for _, m := range f.members {
		m.node.press(f.options.Victims)
	}
	for _, m := range f.members {
		m.wake <- struct{}{}
	}
	f.say("%d nodes are short of memory now.", len(f.members))
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, f.options.Patience, true, func(context.Context) (bool, error) {
		for _, m := range f.members {
			if m.node.pressed() {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrPatience, err)
	}
	return f.result(begin, time.Since(begin)), err
}

// until polls a condition that must become true.
func until(ctx context.Context, what string, met func(context.Context) (bool, error)) error {
	const long = 3 * time.Minute
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, long, true, met); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// nodeName is the name of a member's node.
func (f *fleet) nodeName(i int) string { return fmt.Sprintf("%s-%d", f.namespace, i) }

// spare is the name of the node for the victims' replacements.
func (f *fleet) spare() string { return f.namespace + "-spare" }

// remove removes everything that was created.
func (f *fleet) remove(ctx context.Context) error {
	if f.namespace == "" {
		return nil
	}
	const long = time.Minute
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	background, now := metav1.DeletePropagationBackground, int64(0)
	faults := []error{
		f.client.AppsV1().Deployments(f.namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}),
		f.client.PolicyV1().PodDisruptionBudgets(f.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		f.client.AppsV1().ReplicaSets(f.namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}),
		f.client.CoreV1().Pods(f.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}),
		f.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labelFleet + "=" + f.namespace}),
	}
	for _, namespace := range []string{f.namespace, f.own} {
		faults = append(faults, f.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	}
	return errors.Join(faults...)
}

// workloadOf returns the Deployment of a pod, by this package's label.
func workloadOf(pod *corev1.Pod) string { return pod.Labels[labelWorkload] }
