package decide

import (
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Report is what became of a plan.
type Report struct {
	// About is the request in doubt whose outcome is all that was found out, where it is about
	// another resource than the plan; nil where the report is the plan's.
	About *InDoubt
	// Notes and Attempts belong to the decision. Hold is why no request was sent, or why no PDB was
	// bypassed after those that were; HoldNone elsewhere. Detail says that, or why the plan was not
	// carried out completely; "" where it was.
	Notes    []string
	Attempts []Attempt
	Hold     Hold
	Detail   string
	// Expected is what the end of the last attempt's pod should free, or of Foreign's.
	Expected pressure.Amounts
	// Held is what the last attempt's pod held in detail when its eviction was accepted; nil
	// where that is not known.
	Held *usage.Detail
	// InDoubt is the request whose outcome is not known; nil where there is none. Unread says
	// that its pod could not be read.
	InDoubt *InDoubt
	Unread  bool
	// Foreign is an earlier request whose pod was ended by another client meanwhile; nil when there
	// is none.
	Foreign *Attempt
	// Shared are refusals of attempts that hold for other pods too, as attempts for those.
	Shared []Attempt
	// Stale says that the plan grew too old: the next plan continues where this one ended.
	Stale bool
}

// Complete completes a decision by what became of its plan: its requests, or why none was sent; HoldNone
// where the plan was canceled before its first one.
func (r *Report) Complete(d *Decision) {
	d.Detail, d.Attempts = r.Detail, r.Attempts
	d.Notes = append(d.Notes, r.Notes...)
	if len(r.Attempts) == 0 {
		d.Hold = r.Hold
	}
}

// Reconcile adds that a request in doubt was carried out; how names the source. It has no times: nothing was
// sent.
func (r *Report) Reconcile(open *InDoubt, how string) {
	attempt := open.Attempt
	attempt.Result = evict.Result{
		Outcome: attempt.CarriedOut(),
		Message: "there was no response to the request; " + how + " told its outcome",
	}
	r.Expected, r.Attempts = open.Expected, append(r.Attempts, attempt)
}
