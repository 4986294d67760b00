package decide

import (
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Report is what became of a plan, or of a request in doubt.
type Report struct {
	// Decision is the plan's, with its requests. Its hold is why no request was sent, or why no PDB was
	// bypassed after those that were; HoldNone elsewhere. Its detail says that, or why the plan was not
	// carried out completely; "" where it was. It is [InDoubt.Decision] where all that was found out is the
	// outcome of a request about another resource.
	Decision

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

// Reconcile adds that a request in doubt was carried out; how names the source. It has no times: nothing was
// sent.
func (r *Report) Reconcile(open *InDoubt, how string) {
	attempt := open.Attempt
	attempt.Result = evict.Result{
		Outcome: attempt.Request(false).Accepted(),
		Message: "there was no response to the request; " + how + " told its outcome",
	}
	r.Expected, r.Attempts = open.Expected, append(r.Attempts, attempt)
}
