package execute

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
)

// TaintTimeout bounds how long the first request waits for the node's taint.
const TaintTimeout = time.Second

// staleAfter is how old a plan may be when it sends one more request. A ranking is of one moment: a
// pod that leaks may have come since. Refusals take milliseconds, so that a plan with all pods of a
// node ends long before. A plan that does not has met a slow webhook or API server, and sixty
// candidates at ten seconds would be ten minutes.
const staleAfter = 5 * time.Second

// nothingFurther ends the sentence that says why a plan was not carried out to its end.
const nothingFurther = ": no further request was sent"

// run is one plan while it is carried out. Only the executor's goroutine touches it.
type run struct {
	*Executor
	plan       decide.Plan
	candidates []candidate
	canceled   func() error // the cause; nil while the plan is wanted
	report     decide.Report
}

// candidate is a candidate of the plan and what was found out about it.
type candidate struct {
	decide.Candidate
	// fresh says that its refusal is of this run, again that its request was sent once more
	// before a delete.
	fresh, again bool
}

func newRun(e *Executor, p decide.Plan, canceled func() error) *run {
	r := &run{Executor: e, plan: p, canceled: canceled, report: decide.Report{Verb: decide.Refused}}
	for i := range p.Candidates {
		r.candidates = append(r.candidates, candidate{Candidate: p.Candidates[i]})
	}
	return r
}

// carryOut sends one request after the other until one is accepted or there is a reason to stop.
func (r *run) carryOut(ctx context.Context) {
	for i := range r.plan.Others {
		if r.lookAside(ctx, &r.plan.Others[i]) {
			return
		}
	}
	switch {
	case r.plan.InDoubt != nil && r.lookInto(ctx, r.plan.InDoubt):
	case r.plan.Escalation != nil:
		r.escalate(ctx, r.plan.Escalation)
	default:
		r.awaitTaint(ctx)
		r.evictInOrder(ctx)
	}
}

// stops reports whether no further request should be sent, and says why.
func (r *run) stops(ctx context.Context) bool {
	cause := r.canceled()
	switch {
	case ctx.Err() != nil:
		r.report.Detail = "shutting down" + nothingFurther
	case cause != nil:
		r.report.Detail = cause.Error() + nothingFurther
	}
	return cause != nil
}

// endsEarly reports whether the plan should end although there is a candidate left. It has sent a
// request before it ends for its age: each plan comes further.
func (r *run) endsEarly(ctx context.Context) bool {
	if r.stops(ctx) {
		return true
	}
	age := r.options.Now().Sub(r.plan.Decision.Time)
	if r.report.Stale = len(r.report.Attempts) > 0 && age > staleAfter; r.report.Stale {
		r.report.Detail = fmt.Sprintf("the decision is %v old, and the next one is made by what the pods use now",
			wording.Rounded(age)) + nothingFurther
	}
	return r.report.Stale
}

// escalate ends a victim sooner.
func (r *run) escalate(ctx context.Context, attempt *decide.Attempt) {
	if !r.stops(ctx) && r.send(ctx, attempt) == evict.Done {
		r.report.Verb = decide.Escalated
	}
}

// awaitTaint waits until the node carries its taint, so that no pod is placed here instead of a
// victim. The taint helps but is not required: a pod that is placed nevertheless comes back and is
// counted by the limits. So a failure stops neither a hard eviction nor a soft one, which would
// otherwise wait for a missing right until the pressure is hard.
func (r *run) awaitTaint(ctx context.Context) {
	if r.options.Taints == nil || !r.plan.Taint {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, TaintTimeout)
	defer cancel()
	keys := strings.Join(taint.Of(r.plan.Decision.Pressure.Threshold.Signal).Keys(), ", ")
	switch err := r.options.Taints.Settled(ctx); {
	case err != nil:
		r.note("the node may not carry " + keys + ": " + err.Error())
	case r.plan.Decision.DryRun:
		r.note("dry run: evictd would taint the node with " + keys)
	}
}

// evictInOrder sends requests for the candidates until one is accepted, and bypasses a budget when
// all were refused and the plan says so.
func (r *run) evictInOrder(ctx context.Context) {
	for i := range r.candidates {
		c := &r.candidates[i]
		if c.BlockedByPDB {
			continue
		}
		if len(r.report.Attempts) > 0 && r.tooFew(i) {
			break
		}
		if r.evict(ctx, c) {
			return
		}
	}
	r.bypassPDB(ctx)
}

// tooFew reports whether the candidates from one on could not free what is required: the one that would
// have was refused, and the others would be evicted without effect.
func (r *run) tooFew(from int) bool {
	var left []*candidate
	for i := range r.candidates[from:] {
		if c := &r.candidates[from+i]; !c.BlockedByPDB {
			left = append(left, c)
		}
	}
	if decide.Suffice(r.plan.Required, reclaimsOf(left)) {
		return false
	}
	r.note(fmt.Sprintf("%d more were not tried: together they could not free what is missing", len(left)))
	return true
}

// evict sends the request for one candidate. It reports whether that ends the run.
func (r *run) evict(ctx context.Context, c *candidate) (over bool) {
	if r.endsEarly(ctx) || r.isReplaced(c) {
		return true
	}
	attempt := decide.Attempt{Entry: c.Entry, GraceSeconds: decide.CapGrace(r.plan.GraceCap, c.Entry.Pod)}
	if r.sendFor(ctx, c, &attempt) != evict.NextCandidate {
		return true
	}
	if open := r.plan.InDoubt; open != nil && open.UID() == c.Entry.Pod.UID && open.MayStillApply(r.options.Now()) {
		r.report.InDoubt = open // what is refused is the second request for it
		r.hold(decide.HoldRequestInDoubt, open.Undecided())
		return true
	}
	c.BlockedByPDB, c.PDB, c.fresh = attempt.Result.Outcome.OfBudget(), attempt.Result.Budget, true
	r.shareRefusal(c.Entry.Pod, &attempt.Result)
	return false
}

// isReplaced reports whether the watch lists a candidate no more, right before its request. The
// API server would retry a request with its UID for ten seconds, and charge the budget of a new
// pod of its name (k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go). What its cgroup
// still holds, the next decision sees.
func (r *run) isReplaced(c *candidate) bool {
	pod := c.Entry.Pod
	if r.options.Listed(pod.UID) {
		return false
	}
	r.hold(decide.HoldAwaitingNewerSample, pod.Key()+" (UID "+pod.UID+") is not listed any more"+nothingFurther)
	return true
}

// sendFor sends the request for a candidate. It takes the answer to the report unless the next
// candidate is to be tried.
func (r *run) sendFor(ctx context.Context, c *candidate, attempt *decide.Attempt) evict.Step {
	if !r.plan.Decision.DryRun {
		open := r.inDoubt(c, attempt, r.options.Now())
		open.Attempt.Result = evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Sent: open.First}
		r.options.BeforeSend(open)
	}
	step := r.send(ctx, attempt)
	if step == evict.NextCandidate {
		return step
	}
	r.report.Expected = c.Expected
	switch {
	case step == evict.Done:
		r.report.Verb = decide.Acted
		if r.options.Held != nil && !r.plan.Decision.DryRun {
			r.report.Held = r.options.Held(c.Entry.Pod.UID)
		}
	case attempt.Result.Outcome == evict.Unconfirmed && !r.plan.Decision.DryRun:
		r.report.InDoubt = r.inDoubt(c, attempt, attempt.Result.Sent)
	}
	return step
}

// inDoubt returns a request as one whose outcome is unknown.
func (r *run) inDoubt(c *candidate, attempt *decide.Attempt, first time.Time) *decide.InDoubt {
	d := &r.plan.Decision
	return &decide.InDoubt{
		Attempt: *attempt, Expected: c.Expected, Incident: d.Incident, Pressure: d.Pressure, Ranking: d.Ranking, First: first,
	}
}

// send records a request, sends it and adds the answer to the report.
func (r *run) send(ctx context.Context, attempt *decide.Attempt) evict.Step {
	r.options.Intent(&r.plan.Decision, attempt)
	bounded, answered := r.begin(ctx, attempt.Entry.Pod.UID)
	defer answered()
	attempt.Result = r.options.Evictor.Evict(bounded, requestOf(attempt, r.plan.Decision.DryRun))
	r.claim(attempt)
	r.report.Attempts = append(r.report.Attempts, *attempt)
	return attempt.Result.Next()
}

func requestOf(attempt *decide.Attempt, dryRun bool) evict.Request {
	pod := attempt.Entry.Pod
	return evict.Request{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		GraceSeconds: attempt.GraceSeconds,
		Delete:       attempt.Bypassed != nil,
		Shorten:      attempt.Escalates,
		DryRun:       dryRun,
	}
}

// hold says why no further request is sent.
func (r *run) hold(why decide.Hold, detail string) { r.report.Hold, r.report.Detail = why, detail }

func (r *run) note(text string) { r.report.Notes = append(r.report.Notes, text) }

// moveFirst moves a candidate to the front, and moveLast to the end; they report whether a request
// is sent for it in this run.
func (r *run) moveFirst(uid string) bool {
	at := r.indexOf(uid)
	if at >= 0 {
		c := r.candidates[at]
		r.candidates = slices.Insert(slices.Delete(r.candidates, at, at+1), 0, c)
	}
	return at >= 0
}

func (r *run) moveLast(uid string) bool {
	at := r.indexOf(uid)
	if at >= 0 {
		c := r.candidates[at]
		r.candidates = append(slices.Delete(r.candidates, at, at+1), c)
	}
	return at >= 0
}

// indexOf returns where a candidate is that no budget blocks; -1 where it is not.
func (r *run) indexOf(uid string) int {
	return slices.IndexFunc(r.candidates, func(c candidate) bool { return c.Entry.Pod.UID == uid && !c.BlockedByPDB })
}
