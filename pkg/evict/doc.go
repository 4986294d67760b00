// Package evict answers one question: how is a pod evicted?
//
// The caller chooses the pod; the package neither chooses nor measures. It sends one
// policy/v1 Eviction with the requested UID as its precondition, and turns the API server's
// response into a named [Outcome]:
//
//	result := evictor.Evict(ctx, evict.Request{Namespace: "shop", Name: "web-1", UID: uid})
//	if result.Outcome == evict.BlockedByBudget { … try the next candidate … }
//
// A refusal is an outcome and not an error.
package evict
