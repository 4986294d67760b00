package usage

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/filetree"
)

// count counts the files of the places. It leaves a tenth of the time for the steps after
// it.
func (d *NodeDisk) count(ctx context.Context, f *found) ([]filetree.Count, error) {
	ctx, cancel := most(ctx)
	defer cancel()
	order(f.places, d.turns, func(p *place) string { return p.name(f.ordered) })
	trees := make([]filetree.Tree, len(f.places))
	// The workers may outlive this call, so they write to their own places.
	opened := make([]*place, len(f.places))
	for i, p := range f.places {
		own := *p
		opened[i] = &own
		trees[i] = filetree.Tree{Name: p.name(f.ordered), Start: d.start(&own, f.layout)} //nolint:contextcheck // its turn has one
	}
	counts, err := run(ctx, d.pool, trees, func(i int) { f.places[i].device = opened[i].device })
	if err == nil {
		f.turns.note(trees, counts)
	}
	return counts, err
}

// most returns a context with nine tenths of the time.
func most(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	left := time.Until(end) //nolint:forbidigo // a share of the time, by which nothing is decided
	return context.WithDeadline(ctx, end.Add(-left/10))
}

// run counts trees, and calls took with the index of each that a worker has finished. All
// others have an empty count with a reason.
func run(ctx context.Context, pool *filetree.Pool, trees []filetree.Tree, took func(i int)) ([]filetree.Count, error) {
	results, err := pool.Count(ctx, trees)
	if err != nil {
		return nil, err
	}
	counts := make([]filetree.Count, len(trees))
	came := make([]bool, len(trees))
	receive(ctx, results, func(r filetree.Result) {
		counts[r.Index], came[r.Index] = r.Count, true
		took(r.Index)
	})
	for i := range trees {
		switch {
		case came[i]:
		case pool.Holds(trees[i].Name):
			counts[i].Partial = filetree.ErrSilent
		default:
			counts[i].Partial = filetree.ErrNotReached
		}
	}
	return counts, nil
}

// settleWait is how long workers have to notice that the time is up.
const settleWait = 100 * time.Millisecond

// receive takes results until there are no more, or until shortly after the context ends.
func receive(ctx context.Context, results <-chan filetree.Result, take func(filetree.Result)) {
	var late <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case r, more := <-results:
			if !more {
				return
			}
			take(r)
		case <-done:
			timer := time.NewTimer(settleWait)
			defer timer.Stop()
			done, late = nil, timer.C
		case <-late:
			return
		}
	}
}
