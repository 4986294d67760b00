// Package execute carries a plan out: only this package sends eviction requests. It works by the
// plan that it is given and returns one report of facts; it neither reads nor writes what the agent
// remembers. The loop samples on meanwhile: one that waits would miss a recovery or a hard threshold.
package execute

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/usage"
)

// ShutdownWait is how long a request that is under way at SIGTERM may still take.
const ShutdownWait = 5 * time.Second

// hangsAfter is how long a request may be pending before it counts as hanging: a response takes
// milliseconds, and a late one is better than doubt.
const hangsAfter = time.Second

// errWithdrawn is the cause of a context whose request was withdrawn.
var errWithdrawn = errors.New("the request was withdrawn: hard pressure does not wait for it")

// Evictor sends requests to the API server: to evict one pod, to read the outcome, and to find what
// blocks it.
type Evictor interface {
	Evict(ctx context.Context, r evict.Request) evict.Result
	// Look reads the pod again; an error means that this is not known.
	Look(ctx context.Context, r evict.Request) (evict.Outcome, error)
	// Budget returns what a PodDisruptionBudget wants and has, and the zero value where it does not exist;
	// an error means that this is not known.
	Budget(ctx context.Context, namespace, name string) (evict.Budget, error)
}

// Options are an executor's parts. All must be set. Listed, BeforeSend, Intent and Held are called on
// the executor's goroutine.
type Options struct {
	Evictor Evictor
	// Tainted waits until the node carries evictd's taints; an error says why it does not yet.
	Tainted func(ctx context.Context) error
	// Listed reports whether the watch lists a pod.
	Listed func(uid string) bool
	// BeforeSend keeps a request that may be carried out, right before it is sent, for the
	// case that the process ends before its answer. It is not called in a dry run.
	BeforeSend func(r *decide.InDoubt)
	// Intent records a request that is about to be sent.
	Intent func(d *decide.Decision, a *decide.Attempt)
	// Held reads the details of a pod's cgroup, right after its eviction was accepted; nil with an error when
	// they are not known. It is not called in a dry run.
	Held func(uid string) (usage.Detail, error)
	// Now is the clock.
	Now func() time.Time
}

// Executor carries out one plan at a time, on a goroutine of its own: a slow API server does not
// keep the node from being watched. Its methods are called from one other goroutine.
type Executor struct {
	options Options
	reports chan decide.Report
	cancel  context.CancelCauseFunc // of the plan that was started last; nil before

	last atomic.Pointer[sent] // nil before the plan's first; the executor's goroutine writes it
}

// sent is the request that was sent last.
type sent struct {
	since    time.Time
	withdraw context.CancelCauseFunc // no effect once it is answered
}

// New returns an executor that does nothing yet.
func New(options Options) *Executor {
	return &Executor{options: options, reports: make(chan decide.Report, 1)}
}

// Start carries a plan out. The report of the previous plan must have been received. When the
// context ends no further request is sent, and a pending one gets [ShutdownWait].
func (e *Executor) Start(ctx context.Context, p decide.Plan) {
	canceled, cancel := context.WithCancelCause(ctx)
	e.cancel = cancel
	e.last.Store(nil)
	p.Candidates = slices.Clone(p.Candidates)
	p.Decision.Notes = slices.Clip(p.Decision.Notes)
	r := &run{Executor: e, plan: p, canceled: func() error { return context.Cause(canceled) }, report: decide.Report{Decision: p.Decision}}
	go func() {
		defer cancel(nil)
		r.carryOut(ctx)
		e.reports <- r.report
	}()
}

// Reports returns the channel on which the one report of each plan comes.
func (e *Executor) Reports() <-chan decide.Report { return e.reports }

// Cancel ends a plan between two of its requests; the first cause counts, which the report's
// detail names. A request that is under way is answered first, unless the cause is urgent: then one that
// hangs, in a webhook for up to 30 s, is withdrawn, and is in doubt from then on, like one without a
// response. It is called repeatedly while the plan is carried out.
func (e *Executor) Cancel(cause error, urgent bool) {
	e.cancel(cause)
	if last := e.last.Load(); urgent && last != nil && e.options.Now().Sub(last.since) >= hangsAfter {
		last.withdraw(errWithdrawn)
	}
}

// begin notes a request that is about to be sent. It returns the request's context, and what to
// call after its answer. The context ends ShutdownWait after the given one: an accepted eviction
// should be on record.
func (e *Executor) begin(ctx context.Context) (context.Context, func()) {
	longer, withdraw := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(ShutdownWait, func() { withdraw(nil) }) })
	e.last.Store(&sent{since: e.options.Now(), withdraw: withdraw})
	return longer, func() { stop(); withdraw(nil) }
}
