package evict

// Outcome is the result of one eviction request.
type Outcome string

// The outcomes.
const (
	// Evicted: the API server accepted the eviction (201). The pod is terminating, but has
	// not ended.
	Evicted Outcome = "Evicted"
	// WouldEvict: the same response to a server-side dry run; nothing happened.
	WouldEvict Outcome = "WouldEvict"
	// Deleted: the API server accepted the delete of a pod that a budget had blocked. The
	// pod is terminating, but has not ended.
	Deleted Outcome = "Deleted"
	// WouldDelete: the same response to a server-side dry run; nothing happened.
	WouldDelete Outcome = "WouldDelete"
	// Gone: the pod is no longer in the API server (404), or another pod has its name (409
	// on the UID). Its processes may still run and hold resources.
	Gone Outcome = "Gone"
	// BlockedByBudget: a PodDisruptionBudget allows no disruption now.
	BlockedByBudget Outcome = "BlockedByBudget"
	// BudgetPending: the budget's status does not reflect its spec yet; the server says to
	// retry in some seconds.
	BudgetPending Outcome = "BudgetPending"
	// Throttled: the API server is overloaded or starting, this client sends too fast, or evictd's
	// account may not evict; or a webhook of the pod could not be called, see [Result.PodAlone].
	Throttled Outcome = "Throttled"
	// Denied: admission or a webhook denied the request, or RBAC a delete.
	Denied Outcome = "Denied"
	// Evacuating: a webhook refused the request and moves the pod away by its own means, as
	// KubeVirt does by a live migration. The pod stays listed until that is over, if it succeeds.
	Evacuating Outcome = "Evacuating"
	// Misconfigured: more than one budget selects the pod, which the eviction subresource
	// does not support; only an administrator can fix it.
	Misconfigured Outcome = "Misconfigured"
	// Unconfirmed: the outcome is in doubt: a timeout, a server error or a broken
	// connection. The pod must be read again before another pod is evicted.
	Unconfirmed Outcome = "Unknown"
)

// Outcomes returns every outcome, so that metrics can be created at start.
func Outcomes() []Outcome {
	return []Outcome{
		Evicted, WouldEvict, Deleted, WouldDelete, Gone, BlockedByBudget, BudgetPending,
		Throttled, Denied, Evacuating, Misconfigured, Unconfirmed,
	}
}

// Accepted reports whether the API server accepted the request, or would have in a dry run.
func (o Outcome) Accepted() bool { return o == Evicted || o == Deleted || o.Simulated() }

// Simulated reports whether a dry run was accepted: no pod is terminating.
func (o Outcome) Simulated() bool { return o == WouldEvict || o == WouldDelete }

// OfBudget reports whether a PodDisruptionBudget refused.
func (o Outcome) OfBudget() bool { return o == BlockedByBudget || o == BudgetPending }

// Refused reports whether the API server refused to evict the pod, and would not refuse another.
func (o Outcome) Refused() bool { return o.OfBudget() || o == Denied || o == Misconfigured }
