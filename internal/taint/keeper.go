// Package taint keeps taints of evictd's own on its node while the node is under pressure, so that
// the scheduler places no pod there that would have to be evicted next.
//
// The taints of the kubelet and of other clients are never touched: a write names the version of
// the node that was read, and a node that has changed meanwhile is read again. Nothing is sent
// while nothing is to be changed. A taint of a process that was killed is found at the start,
// and stays for the transition period. No eviction depends on a taint: without the right to set it, evictd would wait
// until the pressure is hard.
package taint

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/evictd/evictd/pkg/pressure"
)

const (
	// A change that failed is tried again after firstWait, then after twice as long each time, up to
	// longestWait.
	firstWait   = time.Second
	longestWait = 30 * time.Second
	// lookEvery is how often the node is read while something is wanted: another may remove
	// a taint, and a Node may be made anew.
	lookEvery = time.Minute
	// jitter keeps the agents of many nodes from coming back together.
	jitter = 0.2
	// requestTimeout bounds reading the node and changing it.
	requestTimeout = 5 * time.Second
	// conflictsInARow is how often another client may change the node between reading and writing
	// before a change is deferred: a kubelet writes every ten seconds at most.
	conflictsInARow = 10
)

// Wanted says what the node should carry.
type Wanted struct {
	// Pressures are the taints of these.
	Pressures Set
	// Keep leaves what the node carries beyond that: it has not been watched for long
	// enough to know that the pressure is over.
	Keep bool
	// DryRun sends what would be set as a server-side dry run; what is there is removed
	// as if nothing were wanted.
	DryRun bool
}

// WantedBy returns the wish that follows from a verdict: a taint for each signal that counts as
// under pressure. Soft makes that one with the effect PreferNoSchedule, and adds NoSchedule once a threshold
// holds, before a pod is evicted for it. Until the node has been watched for a transition period by the policy in force,
// what an earlier process or policy has set stays: that it is calm is not known before.
func WantedBy(verdict *pressure.Verdict, watched, transition time.Duration, soft, dryRun bool) Wanted {
	w := Wanted{Keep: watched < transition, DryRun: dryRun}
	for signal, under := range verdict.Under {
		of := Of(pressure.Signal(signal))
		if under && soft {
			w.Pressures |= of.Preferring()
		}
		if under && (!soft || verdict.Held[signal]) {
			w.Pressures |= of
		}
	}
	return w
}

// real returns what the node should really carry when it carries something already.
func (w Wanted) real(has Set) Set {
	switch {
	case w.DryRun:
		return 0
	case w.Keep:
		return w.Pressures | has
	default:
		return w.Pressures
	}
}

// Recorder writes down what becomes of the node's taints.
type Recorder interface {
	// Tainted notes a change, by the taints' keys. A dry run has changed nothing.
	Tainted(added, removed []string, dryRun bool)
	// Failed notes why a change failed, which is tried again. What is [Failure].
	Failed(what string, err error)
}

// Failure names a failed change for the Recorder.
const Failure = "Taint"

// Client reads and patches nodes, as client-go's client of nodes does.
type Client interface {
	// Get returns a node.
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Node, error)
	// Patch changes a node and returns it.
	Patch(
		ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string,
	) (*corev1.Node, error)
}

// Keeper keeps the node's taints as they are wanted. Its methods may be called from
// several goroutines.
type Keeper struct {
	nodes    Client
	node     string
	recorder Recorder
	now      func() time.Time
	sending  chan struct{} // holds one value during an attempt

	mu    sync.Mutex    // guards all below
	asked Wanted        // at the last look at the node
	want  Wanted        // of that, what the last attempt was for
	has   Set           // what the node carries, as far as is known
	fault error         // why the last attempt failed, which may have been carried out; nil where it did not
	wait  time.Duration // after the last attempt, where it failed
	next  time.Time     // before it nothing is sent for what was wanted before too
}

// New returns a keeper of the taints of a node, by its name, which wants nothing and knows nothing of the
// node yet. The recorder notes changes.
func New(nodes Client, node string, recorder Recorder, now func() time.Time) *Keeper {
	return &Keeper{nodes: nodes, node: node, recorder: recorder, now: now, sending: make(chan struct{}, 1)}
}

// Found passes the node as it was read at the start.
func (k *Keeper) Found(node *corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.has = on(node.Spec.Taints...)
}

// Want says what the node should carry, at each look at the node. It does not wait, and sends nothing where nothing is
// to be changed. An attempt that failed is made again by a later call, and while something is wanted the node is read
// once a minute. What it carries at the end stays: the next process finds it.
func (k *Keeper) Want(w Wanted) {
	k.mu.Lock()
	k.asked = w
	k.mu.Unlock()
	select {
	case k.sending <- struct{}{}:
	default: // that attempt goes on with it
		return
	}
	if k.due(w) {
		go k.attempt(w)
	} else {
		<-k.sending
	}
}

// due notes what is wanted, and reports whether a request is to be sent for it: where something is to be changed or
// found out, and where the node is to be looked at because it carries something.
func (k *Keeper) due(w Wanted) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, wrong := w != k.want, k.fault != nil || w.real(k.has) != k.has
	k.want = w
	if changed {
		return wrong || w.DryRun && w.Pressures != 0
	}
	return !k.now().Before(k.next) && (wrong || w.real(0) != 0)
}

// Settled waits for the attempt at what is wanted, where one is made. An error says why the node may not carry it.
// Between two attempts that fail it returns that at once, so that only one eviction waits.
func (k *Keeper) Settled(ctx context.Context) error {
	select {
	case k.sending <- struct{}{}:
		defer func() { <-k.sending }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the API server to taint the node: %w", ctx.Err())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fault
}

// attempt sends what is wanted, and once more where something else was wanted meanwhile.
func (k *Keeper) attempt(w Wanted) {
	defer func() { <-k.sending }()
	for again := true; again; {
		k.once(w)
		k.mu.Lock()
		w, again = k.asked, k.asked != k.want
		k.want = w
		k.mu.Unlock()
	}
}

// once sends what is wanted, and notes what the node carries then.
func (k *Keeper) once(w Wanted) {
	var has Set
	err := retry.RetryOnConflict(wait.Backoff{Steps: conflictsInARow}, func() (err error) {
		has, err = k.send(w)
		return err
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	after := lookEvery
	if err == nil {
		k.has, k.fault, k.wait = has, nil, 0
	} else {
		k.recorder.Failed(Failure, err)
		k.fault, k.wait = fmt.Errorf("tainting node %s: %w", k.node, err), min(max(firstWait, 2*k.wait), longestWait)
		after = k.wait
	}
	k.next = k.now().Add(wait.Jitter(after, jitter))
}

// send reads the node and changes evictd's taints on it. It returns those that the node carries then. A
// conflict says that another client has changed the node in between.
func (k *Keeper) send(w Wanted) (Set, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	node, err := k.nodes.Get(ctx, k.node, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading the node: %w", err)
	}
	node, err = k.patch(ctx, node, w.real(on(node.Spec.Taints...)), metav1.PatchOptions{})
	if err == nil && w.DryRun {
		_, err = k.patch(ctx, node, w.Pressures, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if err != nil {
		return 0, err
	}
	return on(node.Spec.Taints...), nil
}

// patch makes a node carry the taints of a set, and returns the node then. A merge patch replaces the whole
// list of taints, which have no key by which a list could be merged; the version that was read makes that
// safe.
func (k *Keeper) patch(ctx context.Context, node *corev1.Node, set Set, options metav1.PatchOptions) (*corev1.Node, error) {
	before := on(node.Spec.Taints...)
	if before == set {
		return node, nil
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": with(node.Spec.Taints, set)},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	after, err := k.nodes.Patch(ctx, node.Name, types.MergePatchType, text, options)
	if err == nil {
		k.recorder.Tainted((set &^ before).Keys(), (before &^ set).Keys(), len(options.DryRun) > 0)
	}
	return after, err
}
