package taint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/pkg/pressure"
)

// A change that failed is tried again after a second, then after twice as long each
// time, up to longestWait.
const (
	firstWait   = time.Second
	longestWait = 30 * time.Second
	// lookEvery is how often the node is read while something is wanted: another may remove
	// a taint, and a Node may be made anew.
	lookEvery = time.Minute
	// jitter keeps the agents of many nodes from coming back together.
	jitter = 0.2
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

// Recorder is told what becomes of the node's taints.
type Recorder interface {
	// Tainted tells of a change, by the taints' keys. A dry run has changed nothing.
	Tainted(added, removed []string, dryRun bool)
	// TaintError tells why a change failed; it is tried again.
	TaintError(err error)
}

// Client reads and patches nodes, as client-go's client of nodes does.
type Client interface {
	// Get returns a node.
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Node, error)
	// Patch changes a node and returns it.
	Patch(
		ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string,
	) (*corev1.Node, error)
}

// Options are what a [Keeper] needs; all of them.
type Options struct {
	// Nodes is the client of the API.
	Nodes Client
	// Node is the name of the node.
	Node string
	// Recorder is told of changes.
	Recorder Recorder
}

// Keeper keeps the node's taints as they are wanted. Its methods may be called from
// several goroutines; one of them, [Keeper.Run], sends all requests.
type Keeper struct {
	options Options
	backoff wait.Backoff  // of attempts that fail
	changed chan struct{} // holds one value after a change of what is to be done

	mu    sync.Mutex // guards all below
	want  Wanted
	known bool          // has was read from the API server
	has   Set           // what the node carries
	doubt bool          // the last patch got no response: read the node again
	would Set           // what the last dry run would have set
	fault error         // why the last attempt at what is wanted failed; nil before it
	tried chan struct{} // closed by the next attempt that ends
}

// New returns a keeper that wants nothing and knows nothing of the node yet.
func New(options Options) *Keeper {
	return &Keeper{
		options: options, changed: make(chan struct{}, 1), tried: make(chan struct{}),
		backoff: wait.Backoff{Duration: firstWait, Factor: 2, Cap: longestWait, Steps: math.MaxInt32, Jitter: jitter},
	}
}

// Want says what the node should carry from now on. It does not wait, and sends nothing
// where nothing changes.
func (k *Keeper) Want(w Wanted) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w == k.want {
		return
	}
	k.want, k.fault = w, nil
	k.wake()
}

// Found passes the node as it was read at the start. It has no effect once the keeper has read the
// node itself.
func (k *Keeper) Found(node *corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known {
		return
	}
	k.known, k.has = true, on(node)
	k.wake()
}

func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default: // it is awake already
	}
}

// Settled waits until the node carries what is wanted. An error says why it does not yet:
// the last attempt failed, or the context has ended.
func (k *Keeper) Settled(ctx context.Context) error {
	for {
		k.mu.Lock()
		_, due := k.due()
		fault, tried := k.fault, k.tried
		k.mu.Unlock()
		switch {
		case !due:
			return nil
		case fault != nil:
			return fault
		}
		select {
		case <-tried:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server to taint the node: %w", ctx.Err())
		}
	}
}

// change is one that is to be made.
type change struct {
	want   Wanted
	dryRun bool
}

// due returns what is to be done next, and false when there is nothing. The lock is held.
func (k *Keeper) due() (change, bool) {
	w := k.want
	switch {
	case k.doubt, k.known && w.real(k.has) != k.has, !k.known && w.real(0) != 0:
		return change{want: w}, true
	case w.DryRun && w.Pressures&^k.would != 0:
		return change{want: w, dryRun: true}, true
	default:
		k.would &= w.Pressures
		return change{}, false
	}
}

// next returns what Run does next: what is due, or a look at the node.
func (k *Keeper) next(look bool) (change, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if next, due := k.due(); due {
		return next, true
	}
	return change{want: k.want}, look && k.want.real(0) != 0
}

// wanted reports whether the node should carry something, so that it is looked at.
func (k *Keeper) wanted() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.want.real(0) != 0
}

// Run makes the changes until the context ends. What the node carries then stays: the
// next process finds it. While something is wanted it reads the node once a minute, and
// otherwise sends nothing.
func (k *Keeper) Run(ctx context.Context) error {
	backoff, look := k.backoff, false
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	for {
		next, due := k.next(look)
		timer.Stop()
		switch {
		case due && k.attempt(ctx, next) == nil:
			backoff, look = k.backoff, false
			continue
		case due:
			timer.Reset(backoff.Step())
		case k.wanted():
			timer.Reset(wait.Jitter(lookEvery, jitter))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
		case <-timer.C:
			look = true
		}
	}
}

// attempt makes a change and notes what became of it.
func (k *Keeper) attempt(ctx context.Context, c change) error {
	before, after, err := k.apply(ctx, c)
	if ctx.Err() != nil {
		return ctx.Err() // the program ends
	}
	if err != nil {
		k.options.Recorder.TaintError(err)
	} else if before != after {
		k.options.Recorder.Tainted((after &^ before).Keys(), (before &^ after).Keys(), c.dryRun)
	}
	k.note(c, after, err) // at the end: it unblocks the callers that wait for it
	return err
}

// note takes what became of an attempt.
func (k *Keeper) note(c change, after Set, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil:
		if c.want == k.want {
			k.fault = fmt.Errorf("tainting node %s: %w", k.options.Node, err)
		}
		_, unanswered := errors.AsType[*unansweredError](err)
		k.doubt = k.doubt || unanswered && !c.dryRun
	case c.dryRun:
		k.would = c.want.Pressures
	default:
		k.known, k.has, k.doubt = true, after, false
	}
	close(k.tried)
	k.tried = make(chan struct{})
}
