// Package evict answers one question: how does a pod go?
//
// It is told whom to evict; it does not choose and it does not measure. It sends
// one policy/v1 Eviction with the UID that was judged as its precondition, and
// turns whatever the API server answers into a named [Outcome] with one next
// [Step]:
//
//	result := evictor.Evict(ctx, evict.Request{Namespace: "shop", Name: "web-1", UID: uid})
//	if result.Outcome == evict.BlockedByBudget { … try the next candidate … }
//
// A refusal is an outcome and not an error.
package evict
