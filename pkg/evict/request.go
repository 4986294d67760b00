package evict

import "time"

// Request names one pod and how it should go.
type Request struct {
	// Namespace, Name and UID are the pod that was judged. A pod of the same name
	// with another UID is never hit: the UID is the request's precondition.
	Namespace, Name, UID string
	// GraceSeconds caps the pod's own grace period; nil leaves it to the pod. The
	// caller has made sure that it is not longer than the pod's own.
	GraceSeconds *int64
	// Delete deletes the pod instead of asking for its eviction: no budget is asked.
	Delete bool
	// Shorten says that the pod is on its way out already and should have no more than
	// GraceSeconds, which must be set: only then has the request been carried out.
	Shorten bool
	// DryRun asks the API server to check everything and do nothing. It is the only
	// thing in which a dry run differs.
	DryRun bool
}

// accepted returns the outcome when the API server takes the request.
func (r *Request) accepted() Outcome {
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

// Result is the answer to one Request.
type Result struct {
	// Outcome says what became of it.
	Outcome Outcome
	// Message is the API server's text, or the error's, cut after 1 KiB; "" when it was
	// accepted.
	Message string
	// Budget is the name of the PodDisruptionBudget that refused, when the answer
	// names it; "" otherwise.
	Budget string
	// NoRight says that RBAC denied it: the account may not create pods/eviction, or
	// not delete pods, in the pod's namespace, whatever the pod.
	NoRight bool
	// Stays says of an answer that nobody heard that the pod was read after it, and was
	// there and not terminating.
	Stays bool
	// Silent says that no answer came at all, not even an odd one: a time-out, or a broken
	// connection.
	Silent bool
	// Withdrawn says that the caller's context ended before an answer came, which is no
	// fault of the API server's. Message is the context's cause then.
	Withdrawn bool
	// Late says that the API server may still carry the request out, for [RequestTimeout]
	// from Sent at most: there was no answer, or one of somebody who gave up waiting for it.
	Late bool
	// RetryAfter is how long the server asked to wait; 0 when it did not.
	RetryAfter time.Duration
	// Sent is when the request was handed to the transport; Took is how long the
	// answer took.
	Sent time.Time
	Took time.Duration
}

// Fate is what a fresh read of a pod says.
type Fate uint8

// The fates.
const (
	// Stays: the pod is there and is not terminating, or has longer than a request to
	// shorten its grace period named.
	Stays Fate = iota
	// Leaving: the pod is terminating, whoever asked for it, and within the grace period
	// that a request to shorten it named.
	Leaving
	// Ended: the pod is not there, or another has its name.
	Ended
)
