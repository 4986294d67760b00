package execute

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
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
	plan     decide.Plan  // its candidates are the run's own
	canceled func() error // the cause; nil while the plan is wanted
	report   decide.Report
}

// carryOut sends one request after the other until one is accepted or there is a reason to stop. It
// bypasses a budget when all were refused and the plan says so.
func (r *run) carryOut(ctx context.Context) {
	if r.settleDoubts(ctx) {
		return
	}
	r.awaitTaint(ctx)
	for i := range r.plan.Candidates {
		c := &r.plan.Candidates[i]
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
	if r.plan.BypassPDB {
		r.bypassPDB(ctx)
	}
}

// candidates returns those from one on that a budget blocks, or the others, and what their ends should free.
func (r *run) candidates(from int, blocked bool) (found []*decide.Candidate, ends []pressure.Amounts) {
	for i := from; i < len(r.plan.Candidates); i++ {
		if c := &r.plan.Candidates[i]; c.BlockedByPDB == blocked {
			found, ends = append(found, c), append(ends, c.Expected)
		}
	}
	return found, ends
}

// requests returns how many requests for a candidate were sent.
func (r *run) requests(c *decide.Candidate) (sent int) {
	for i := range r.report.Attempts {
		if r.report.Attempts[i].Entry.Pod.UID == c.Entry.Pod.UID {
			sent++
		}
	}
	return sent
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
			age.Round(time.Second)) + nothingFurther
	}
	return r.report.Stale
}

// awaitTaint waits until the node carries its taint, so that no pod is placed here instead of a
// victim. The taint helps but is not required: a pod that is placed nevertheless comes back and is
// counted by the limits. So a failure stops neither a hard eviction nor a soft one, which would
// otherwise wait for a missing right until the pressure is hard.
func (r *run) awaitTaint(ctx context.Context) {
	if !r.plan.Taint {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, TaintTimeout)
	defer cancel()
	keys := strings.Join(taint.Of(r.plan.Decision.Pressure.Threshold.Signal).Keys(), ", ")
	switch err := r.options.Tainted(ctx); {
	case err != nil:
		r.note("the node may not carry " + keys + ": " + err.Error())
	case r.plan.Decision.DryRun:
		r.note("dry run: evictd would taint the node with " + keys)
	}
}

// tooFew reports whether the candidates from one on could not free what is required: the one that would
// have was refused, and the others would be evicted without effect.
func (r *run) tooFew(from int) bool {
	_, left := r.candidates(from, false)
	if decide.Suffice(r.plan.Decision.Pressure.Threshold.Signal, r.plan.Required, left) {
		return false
	}
	r.note(fmt.Sprintf("%d more were not tried: together they could not free what is missing", len(left)))
	return true
}

// evict sends the request for one candidate. It reports whether that ends the run: where it was not
// refused, and where what is refused is the second request for a pod of which the first may still be
// carried out. A candidate that the watch lists no more is not evicted: the API server would retry a
// request with its UID for ten seconds, and charge the budget of a new pod of its name (k8s.io/kubernetes
// pkg/registry/core/pod/storage/eviction.go). What its cgroup still holds, the next decision sees.
func (r *run) evict(ctx context.Context, c *decide.Candidate) (over bool) {
	if r.endsEarly(ctx) {
		return true
	}
	pod := c.Entry.Pod
	if !r.options.Listed(pod.UID) {
		r.report.Hold = decide.HoldAwaitingNewerSample
		r.report.Detail = pod.Key() + " (UID " + pod.UID + ") is not listed any more" + nothingFurther
		return true
	}
	attempt := c.Attempt
	r.send(ctx, &attempt, c.Expected)
	if !attempt.Result.TriesNext() {
		return true
	}
	if open := r.plan.InDoubt; open != nil && open.UID() == pod.UID && open.MayStillApply(r.options.Now()) {
		r.report.InDoubt, r.report.Detail = open, open.Undecided()
		return true
	}
	c.BlockedByPDB, c.PDB = attempt.Result.Outcome.OfBudget(), attempt.Result.Budget
	r.shareRefusal(pod, &attempt.Result)
	return false
}

// send records a request, sends it and takes the answer to the report: as a victim with what its end
// should free, or as a request in doubt. A request that may be carried out is kept before it is sent.
func (r *run) send(ctx context.Context, attempt *decide.Attempt, expected pressure.Amounts) {
	pod, evicts := attempt.Entry.Pod, !r.plan.Decision.DryRun && !attempt.Escalates
	if evicts {
		open := *attempt
		open.Result = evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Sent: r.options.Now()}
		r.options.BeforeSend(r.inDoubt(&open, expected))
	}
	r.options.Intent(&r.plan.Decision, attempt)
	bounded, answered := r.begin(ctx)
	attempt.Result = r.options.Evictor.Evict(bounded, attempt.Request(r.plan.Decision.DryRun))
	answered()
	r.report.Attempts = append(r.report.Attempts, *attempt)
	if attempt.Escalates || attempt.Result.TriesNext() {
		return
	}
	r.report.Expected = expected
	switch {
	case !evicts:
	case attempt.Result.Outcome.Accepted():
		r.report.Held, _ = r.options.Held(pod.UID) // unknown, for example, because the pod has ended
	case attempt.Result.Outcome == evict.Unconfirmed:
		r.report.InDoubt = r.inDoubt(attempt, expected)
	}
}

// inDoubt returns a request as one whose outcome is unknown.
func (r *run) inDoubt(attempt *decide.Attempt, expected pressure.Amounts) *decide.InDoubt {
	d := &r.plan.Decision
	return &decide.InDoubt{
		Attempt: *attempt, Expected: expected, Incident: d.Incident, Pressure: d.Pressure, Ranking: d.Ranking, First: attempt.Result.Sent,
	}
}

func (r *run) note(text string) { r.report.Notes = append(r.report.Notes, text) }

// move moves a candidate that no budget blocks to the front, or to the end. It reports whether there is
// one of that UID.
func (r *run) move(uid string, toFront bool) bool {
	all := r.plan.Candidates
	at := slices.IndexFunc(all, func(c decide.Candidate) bool { return c.Entry.Pod.UID == uid && !c.BlockedByPDB })
	if at < 0 {
		return false
	}
	c, to := all[at], len(all)-1
	if toFront {
		to = 0
	}
	r.plan.Candidates = slices.Insert(slices.Delete(all, at, at+1), to, c)
	return true
}

// shareRefusal marks the candidates that the budget which has just refused a pod would refuse too
// (docs/adr/0012): no request is sent for those.
func (r *run) shareRefusal(pod *rank.Pod, result *evict.Result) {
	if !result.Outcome.OfBudget() || result.Budget == "" || !pod.Ready {
		return
	}
	shared := 0
	for i := range r.plan.Candidates {
		c := &r.plan.Candidates[i]
		same := c.Entry.Pod.LabelsHash == pod.LabelsHash
		if !r.mayShare(c, pod.Namespace) || !same && c.PDB != result.Budget {
			continue
		}
		c.BlockedByPDB, c.PDB = true, result.Budget
		if same {
			r.report.Shared = append(r.report.Shared, decide.Attempt{Entry: c.Entry, Result: *result})
		}
		shared++
	}
	if shared > 0 {
		r.note(fmt.Sprintf("%d more that PodDisruptionBudget %s/%s blocks were not tried", shared, pod.Namespace, result.Budget))
	}
}

// mayShare reports whether a budget of the namespace that has refused another may select the
// candidate, and no request was sent for it yet.
func (r *run) mayShare(c *decide.Candidate, namespace string) bool {
	return !c.BlockedByPDB && c.Entry.Pod.Ready && c.Entry.Pod.Namespace == namespace && r.requests(c) == 0
}
