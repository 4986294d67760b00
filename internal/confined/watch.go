package confined

import (
	"context"
	"time"
)

const (
	// beforeFirst gives the API server time to apply policies that were created together with
	// evictd: a client that applies them last, as Helm does, has evictd's pods running before.
	beforeFirst = 10 * time.Second
	// beforeSecond is between a check that says that evictd is not confined and the one that must
	// confirm it, because one of several API servers may not have the policies yet.
	beforeSecond = 10 * time.Second
	// whileConfined is between two checks. A policy that is removed or renamed later leaves no
	// trace in what evictd watches, and a restart of the API server changes no policy, so only a
	// check at intervals finds it. At six hours a thousand agents send less than one request per
	// second together.
	whileConfined = 6 * time.Hour
	// whileUnconfined is shorter, so that the metric follows a fix.
	whileUnconfined = 10 * time.Minute
	// afterUnknown doubles with each check that could not tell, up to whileConfined: the API server
	// may be back in a minute, and a cluster may have one node for years.
	afterUnknown = time.Minute
)

// Watcher checks at intervals whether evictd is confined.
type Watcher struct {
	// Check sends the dry runs.
	Check func(context.Context) Result
	// Report gets the first result, and each whose state is another than the one before.
	Report func(Result)
	// Random returns a number in [0, 1). It spreads the agents of many nodes.
	Random func() float64
}

// Run checks until the context ends.
func (w *Watcher) Run(ctx context.Context) {
	var last *Result
	doubt := afterUnknown
	for wait := beforeFirst + w.part(beforeFirst); sleep(ctx, wait); {
		result := w.check(ctx, last)
		if ctx.Err() != nil {
			return
		}
		if last == nil || last.State != result.State {
			w.Report(result)
		}
		last = &result
		wait, doubt = next(result.State, doubt)
		wait += w.part(wait / 10)
	}
}

// check checks once, and once more before it says for the first time that evictd is not confined.
func (w *Watcher) check(ctx context.Context, last *Result) Result {
	result := w.Check(ctx)
	if result.State != Unconfined || last != nil && last.State == Unconfined || !sleep(ctx, beforeSecond) {
		return result
	}
	return w.Check(ctx)
}

// next returns when to check again after a result, and how long to wait after the next one that
// is unknown.
func next(state State, doubt time.Duration) (wait, nextDoubt time.Duration) {
	switch state {
	case Confined:
		return whileConfined, afterUnknown
	case Unconfined:
		return whileUnconfined, afterUnknown
	default:
		return doubt, min(2*doubt, whileConfined)
	}
}

// part returns a random part of a duration.
func (w *Watcher) part(of time.Duration) time.Duration {
	return time.Duration(w.Random() * float64(of))
}

// sleep reports whether the time passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
