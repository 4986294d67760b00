package evict

// Outcome is what became of one eviction request.
type Outcome string

// The outcomes.
const (
	// Evicted: the API server accepted the eviction (201). The pod is on its way
	// out, not gone.
	Evicted Outcome = "Evicted"
	// WouldEvict: the same answer to a server-side dry run; nothing happened.
	WouldEvict Outcome = "WouldEvict"
	// Deleted: the API server accepted the delete of a pod that a budget had kept. It is
	// on its way out, not gone.
	Deleted Outcome = "Deleted"
	// WouldDelete: the same answer to a server-side dry run; nothing happened.
	WouldDelete Outcome = "WouldDelete"
	// Gone: the API server does not know the pod any more (404), or another pod has its
	// name (409 on the UID). Its processes may run on, and hold what they hold.
	Gone Outcome = "Gone"
	// BlockedByBudget: a PodDisruptionBudget allows no disruption now.
	BlockedByBudget Outcome = "BlockedByBudget"
	// BudgetPending: the budget's status is behind its spec; the server asks to come
	// back in some seconds.
	BudgetPending Outcome = "BudgetPending"
	// Throttled: the API server is overloaded or starting, or this client is too fast.
	Throttled Outcome = "Throttled"
	// Denied: RBAC, admission or a webhook said no.
	Denied Outcome = "Denied"
	// Misconfigured: more than one budget selects the pod, which the eviction
	// subresource does not support; only an administrator can mend it.
	Misconfigured Outcome = "Misconfigured"
	// Unconfirmed: nobody knows: a timeout, a server error or a broken connection.
	// The pod must be read again before anybody else is asked for.
	Unconfirmed Outcome = "Unknown"
)

// Outcomes returns every outcome, so that metrics can be created at start.
func Outcomes() []Outcome {
	return []Outcome{
		Evicted, WouldEvict, Deleted, WouldDelete, Gone, BlockedByBudget, BudgetPending,
		Throttled, Denied, Misconfigured, Unconfirmed,
	}
}

// Accepted reports whether the API server took the request, or would have.
func (o Outcome) Accepted() bool { return o == Evicted || o == Deleted || o.Simulated() }

// Simulated reports whether a dry run was accepted: nobody is on the way out.
func (o Outcome) Simulated() bool { return o == WouldEvict || o == WouldDelete }

// OfBudget reports whether a PodDisruptionBudget refused.
func (o Outcome) OfBudget() bool { return o == BlockedByBudget || o == BudgetPending }

// Step is what to do after an outcome.
type Step uint8

// The steps.
const (
	// Stop: send no other request in this tick.
	Stop Step = iota
	// NextCandidate: ask for the next candidate now.
	NextCandidate
	// Done: a victim is on its way out.
	Done
)

// Next returns what to do after the outcome.
func (o Outcome) Next() Step {
	switch o {
	case Evicted, WouldEvict, Deleted, WouldDelete:
		return Done
	case BlockedByBudget, BudgetPending, Denied, Misconfigured:
		return NextCandidate
	default:
		return Stop // what a Gone pod still holds, the next decision measures
	}
}
