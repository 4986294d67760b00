package decide

import (
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Plan is a decision that is ready to be carried out, with all that this needs. What it points to
// does not change while it is.
type Plan struct {
	// Decision is what was decided, and why. It has no attempts yet.
	Decision Decision
	// InDoubt is an earlier request for the same resource whose outcome is not known: its pod is
	// read before any request is sent; nil where there is none. Others are those for other
	// resources.
	InDoubt *InDoubt
	Others  []InDoubt
	// Candidates are the pods that may be evicted, in order; or the one victim that should end sooner.
	Candidates []Candidate
	// Taint has the first request wait, for a moment, until the node carries its taint.
	Taint bool
	// BypassPDB lets one pod be deleted although its PodDisruptionBudget blocks it, see docs/adr/0013.
	BypassPDB bool
	// Required is how much the candidates that are left must be able to free together, once one was
	// refused, in the signal's unit; 0 requires nothing.
	Required int64
}

// Held reports whether no pod is evicted: Decision.Hold says why.
func (p *Plan) Held() bool { return p.Decision.Hold != HoldNone }

// Escalates reports whether the plan is to have a victim end sooner: no other request is sent.
func (p *Plan) Escalates() bool { return len(p.Candidates) == 1 && p.Candidates[0].Escalates }

// NoneLeft reports whether the plan was made without a candidate left: then the pods that were tried
// in its pressure may be tried again.
func (p *Plan) NoneLeft() bool {
	ranking := &p.Decision.Ranking
	return len(p.Candidates) == 0 && len(ranking.Candidates)+len(ranking.Protected) > 0
}

// Candidate is one pod that may be evicted.
type Candidate struct {
	// Attempt is the request for it, without an answer.
	Attempt

	// Expected is what its end should free.
	Expected pressure.Amounts
	// BlockedByPDB says that a budget refused it a short while ago, so that the only request for it
	// is one that bypasses the budget. PDB is the name of the budget that refused it last, and so selects
	// it; "" when there is none, or the answer did not name it.
	BlockedByPDB bool
	PDB          string
}

// Report is what became of a plan, or of a request in doubt.
type Report struct {
	// Decision is the plan's, with its requests. Its hold is why no request was sent, or why no PDB was
	// bypassed after those that were; HoldNone elsewhere. Its detail says that, or why the plan was not
	// carried out completely; "" where it was.
	Decision

	// Expected is what the end of the last attempt's pod should free, or of Left's.
	Expected pressure.Amounts
	// Held is what the last attempt's pod held in detail when its eviction was accepted; nil
	// where that is not known.
	Held usage.Detail
	// InDoubt is the request whose outcome is not known; nil where there is none. Unread says
	// that its pod could not be read.
	InDoubt *InDoubt
	Unread  bool
	// Left is an earlier request in doubt whose pod was read, and is terminating or has ended: nothing else
	// came of the plan then. Nil when there is none.
	Left *InDoubt
	// Shared are refusals of attempts that hold for other pods too, as attempts for those.
	Shared []Attempt
	// Stale says that the plan grew too old: the next plan continues where this one ended.
	Stale bool
}
