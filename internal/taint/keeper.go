// Package taint keeps taints of evictd's own on its node while the node is under pressure, so that
// the scheduler places no pod there that would have to be evicted next.
//
// The taints of the kubelet and of other clients are never touched: a write names the version of
// the node that was read, and a node that has changed meanwhile is read again. Nothing is sent
// while nothing is to be changed. A taint of a process that was killed is found at the start. See
// docs/adr/0027-a-missing-taint-stops-no-eviction.md.
package taint

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
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
	// Pressures are those to carry a taint for.
	Pressures Set
	// Keep leaves what the node carries beyond that: it has not been watched for long
	// enough to know that the pressure is over.
	Keep bool
	// DryRun sends what would be set as a server-side dry run; what is there is removed
	// as if nothing were wanted.
	DryRun bool
}

// WantedBy returns the wish that follows from a verdict: a taint for each signal that counts as
// under pressure. Until the node has been watched for a transition period by the policy in force,
// what an earlier process or policy has set stays: that it is calm is not known before.
func WantedBy(verdict *pressure.Verdict, watched, transition time.Duration, dryRun bool) Wanted {
	w := Wanted{Keep: watched < transition, DryRun: dryRun}
	for signal, under := range verdict.Under {
		if under {
			w.Pressures |= Of(pressure.Signal(signal))
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
	backoff  wait.Backoff  // of attempts that fail
	changed  chan struct{} // holds one value after a change of what is to be done
	sending  chan struct{} // holds one value during an attempt

	mu      sync.Mutex // guards all below
	want    Wanted
	done    bool  // what is wanted was sent
	has     Set   // what the node carries, as far as is known
	unknown bool  // an attempt failed, and may have been carried out: read the node again
	fault   error // why the last attempt at what is wanted failed; nil where none did
}

// New returns a keeper of the taints of a node, by its name, which wants nothing and knows nothing of the
// node yet. The recorder notes changes.
func New(nodes Client, node string, recorder Recorder) *Keeper {
	return &Keeper{
		nodes: nodes, node: node, recorder: recorder, changed: make(chan struct{}, 1), sending: make(chan struct{}, 1),
		backoff: wait.Backoff{Duration: firstWait, Factor: 2, Cap: longestWait, Steps: math.MaxInt32, Jitter: jitter},
	}
}

// Want says what the node should carry from now on. It does not wait, and sends nothing
// where nothing changes.
func (k *Keeper) Want(w Wanted) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w != k.want {
		k.want, k.done, k.fault = w, false, nil
		k.wake()
	}
}

// Found passes the node as it was read at the start.
func (k *Keeper) Found(node *corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.has = on(node.Spec.Taints...)
	k.wake()
}

func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default: // it is awake already
	}
}

// due returns what is wanted, and whether a request is to be sent for it: where something is to be changed or
// found out, and where the node is to be looked at because it carries something. Fault is why the last one failed.
func (k *Keeper) due(look bool) (w Wanted, due bool, fault error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w = k.want
	asks := w.DryRun && w.Pressures != 0 && !k.done
	return w, k.unknown || asks || w.real(k.has) != k.has || look && w.real(0) != 0, k.fault
}

// Settled has the node carry what is wanted, and sends nothing where it does. An error says why it may not. After
// an attempt that failed it returns that at once, so that only one eviction waits: Run tries again.
func (k *Keeper) Settled(ctx context.Context) error { return k.attempt(ctx, false, false) }

// Run makes the changes until the context ends. What the node carries then stays: the
// next process finds it. While something is wanted it reads the node once a minute, and
// otherwise sends nothing.
func (k *Keeper) Run(ctx context.Context) error {
	backoff, look := k.backoff, false
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	for {
		if k.attempt(ctx, look, true) == nil {
			backoff = k.backoff
			timer.Reset(wait.Jitter(lookEvery, jitter))
		} else {
			timer.Reset(backoff.Step())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
			look = false
		case <-timer.C:
			look = true
		}
	}
}

// attempt sends what is wanted where that is due, and notes what the node carries then. It waits for another
// attempt to end. After one that failed it tries only if it is to do so again.
func (k *Keeper) attempt(ctx context.Context, look, again bool) error {
	select {
	case k.sending <- struct{}{}:
		defer func() { <-k.sending }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the API server to taint the node: %w", ctx.Err())
	}
	w, due, fault := k.due(look)
	switch {
	case !due:
		return nil
	case fault != nil && !again:
		return fault
	}
	var has Set
	err := retry.RetryOnConflict(wait.Backoff{Steps: conflictsInARow}, func() (err error) {
		has, err = k.send(ctx, w)
		return err
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unknown = err != nil; !k.unknown {
		k.has, k.done, k.fault = has, w == k.want, nil
		return nil
	}
	if ctx.Err() == nil { // otherwise the caller does not wait any longer
		k.recorder.Failed(Failure, err)
	}
	err = fmt.Errorf("tainting node %s: %w", k.node, err)
	if w == k.want {
		k.fault = err
	}
	return err
}

// send reads the node and changes evictd's taints on it. It returns those that the node carries then. A
// conflict says that another client has changed the node in between.
func (k *Keeper) send(ctx context.Context, w Wanted) (Set, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
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
