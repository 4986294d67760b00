package evict

import "time"

// Request identifies one pod and says how to evict it.
type Request struct {
	// Namespace, Name and UID identify the judged pod. A pod of the same name with another
	// UID is never evicted: the UID is the request's precondition.
	Namespace, Name, UID string
	// GraceSeconds caps the pod's own grace period; nil leaves it unchanged. The caller
	// makes sure that it is not longer than the pod's own.
	GraceSeconds *int64
	// Delete deletes the pod instead of evicting it: no budget applies.
	Delete bool
	// Shorten says that the pod is terminating already and that its grace period should be
	// at most GraceSeconds, which must be set: only then has the request been carried out.
	Shorten bool
	// DryRun makes the API server check everything and do nothing. It is the only difference
	// of a dry run.
	DryRun bool
}

// Accepted returns the outcome when the API server takes the request.
func (r Request) Accepted() Outcome {
	switch {
	case r.Delete && r.DryRun:
		return WouldDelete
	case r.Delete:
		return Deleted
	case r.DryRun:
		return WouldEvict
	default:
		return Evicted
	}
}

// Result is the response to one Request.
type Result struct {
	// Outcome is the classified result.
	Outcome Outcome
	// Message is the API server's text, or the error's, cut after 1 KiB; "" when the request
	// was accepted.
	Message string
	// Budget is the name of the PodDisruptionBudget that refused, when the response contains
	// it; "" otherwise.
	Budget string
	// NoRight says that RBAC denied a delete: the account may not delete any pod of that namespace.
	NoRight bool
	// PodAlone says, of a request that was throttled, that the API server could not call a webhook
	// which matches this pod. Nothing has happened, and it ends within seconds where the webhook
	// is restarted; other pods may be evicted.
	PodAlone bool
	// Stays says, of a request in doubt, that a later read found the pod, and not
	// terminating.
	Stays bool
	// NoResponse says that there was no response at all, not even an unexpected one: a timeout,
	// or a broken connection.
	NoResponse bool
	// Withdrawn says that the caller's context ended before a response arrived, which is not
	// a fault of the API server. Message is then the context's cause.
	Withdrawn bool
	// Pending says that the API server may still carry the request out, until [RequestTimeout]
	// after Sent at most: there was no response, or one of a server that stopped waiting for
	// the result.
	Pending bool
	// RetryAfter is the delay that the server requested; 0 when it did not.
	RetryAfter time.Duration
	// Sent is when the request was handed to the transport; Took is how long the response
	// took.
	Sent time.Time
	Took time.Duration
}

// TriesNext reports whether the next candidate is evicted now: the pod's eviction was refused, or its own
// webhook keeps its requests back. Otherwise no further request is sent in this tick: a victim is in flight, or
// the next decision measures what a pod that is gone still holds.
func (r *Result) TriesNext() bool { return r.PodAlone || r.Outcome.Refused() }
