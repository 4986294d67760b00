package execute

import (
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

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
	// Hold is why no request was sent; HoldNone when one was, or when the plan was canceled before.
	// Detail adds to it, or says why the plan was not carried out completely.
	Hold   decide.Hold
	Detail string
	// Expected is what the end of the last attempt's pod should free, or of Foreign's.
	Expected pressure.Amounts
	// Held is what the last attempt's pod held in detail when its eviction was accepted; nil
	// where that is not known.
	Held *usage.Detail
	// InDoubt is the request whose outcome is not known; nil where there is none. Unread says
	// that its pod could not be read.
	InDoubt *decide.InDoubt
	Unread  bool
	// Foreign is an earlier request whose pod was ended by another client meanwhile; nil when there
	// is none.
	Foreign *decide.Attempt
	// Shared are the refusals that hold for other pods too.
	Shared []Refusal
	// Stale says that the plan grew too old: the next plan continues where this one ended.
	Stale bool
}

// Refusal is a budget's answer to the request for one pod that holds for another pod as well.
type Refusal struct {
	Pod    *rank.Pod
	Result evict.Result
}
