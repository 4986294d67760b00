package execute

import (
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Plan is a decision that is ready to be carried out, with all that this needs. What it points to
// does not change while it is.
type Plan struct {
	// Decision is what was decided, and why. It has no attempts yet.
	Decision decide.Decision
	// InDoubt is an earlier request for the same resource whose outcome is not known: its pod is
	// read before any request is sent; nil where there is none. Others are those for other
	// resources.
	InDoubt *decide.InDoubt
	Others  []decide.InDoubt
	// Escalation is the request to end a victim sooner; nil where there is none. No other
	// request is sent then.
	Escalation *decide.Attempt
	// Candidates are the pods that may be evicted, in order.
	Candidates []Candidate
	// GraceCap caps the pods' own grace periods, in seconds; 0 leaves each its own.
	GraceCap int64
	// PermitsPerWorkload is how many pods of one workload may be evicted at once, on all nodes
	// together; 0 means no such limit.
	PermitsPerWorkload int
	// Taint has the first request wait, for a moment, until the node carries its taint.
	Taint bool
	// BypassPDB lets one pod be deleted past its PodDisruptionBudget, see docs/adr/0013.
	BypassPDB bool
	// Required is how much the pods that budgets block must free together for that, in the
	// signal's unit; 0 asks nothing of them.
	Required int64
}

// Candidate is one pod that may be evicted.
type Candidate struct {
	// Entry is its place in the ranking; Expected is what its end should free, and Reclaim the
	// part of it that is of the decision's signal.
	Entry    rank.Entry
	Expected pressure.Amounts
	Reclaim  decide.Reclaim
	// BlockedByPDB says that a budget refused it a short while ago, so that no request is sent
	// for it but to bypass the budget. PDB is the name of the budget that refused it last; ""
	// when there is none, or the answer did not name it.
	BlockedByPDB bool
	PDB          string
	// SamePDB names the budget that is known to select the pod because it has refused it
	// before; "" where none is.
	SamePDB string
}

// Report is what became of a plan.
type Report struct {
	// About is the request in doubt whose outcome is all that was found out, where it is about
	// another resource than the plan; nil where the report is the plan's.
	About *decide.InDoubt
	// Verb, BestEffort, Notes and Attempts belong to the decision. Verb means nothing without
	// attempts.
	Verb       decide.Verb
	BestEffort decide.BestEffort
	Notes      []string
	Attempts   []decide.Attempt
	// Hold is why no request was sent; HoldNone where one was, or the plan was canceled
	// before. Detail says more of it, or why the plan was not carried out to its end.
	Hold   decide.Hold
	Detail string
	// Expected is what the end of the last attempt's pod should free, or of Foreign's.
	Expected pressure.Amounts
	// InDoubt is the request whose outcome is not known; nil where there is none. Unread says
	// that its pod could not be read.
	InDoubt *decide.InDoubt
	Unread  bool
	// Foreign is an earlier request whose pod another has ended meanwhile; nil where there is
	// none.
	Foreign *decide.Attempt
	// Shared are the refusals that hold for other pods too.
	Shared []Refusal
	// NoPermit says why there was no eviction permit, by workload. PermitsUnknown says why the
	// API server could not tell; "" when it could, or was not asked.
	NoPermit       map[string]string
	PermitsUnknown string
	// Stale says that the plan grew too old: the next one goes on where it ended.
	Stale bool
}

// Refusal is a budget's answer to the request for one pod that holds for another pod as well.
type Refusal struct {
	Pod    *rank.Pod
	Result evict.Result
}
