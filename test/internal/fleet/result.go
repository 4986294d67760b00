package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/pkg/evict"
)

// Result is the result of a run.
type Result struct {
	// Took is from the beginning of the pressure to its end on the last node.
	Took time.Duration
	// Outcomes counts the eviction requests by their outcome.
	Outcomes map[evict.Outcome]int
	// Verdicts counts the requests for a permit by their result.
	Verdicts map[permits.Verdict]int
	// WithoutPermit counts the evictions that were sent without a permit, because the API
	// server could not report whether there was one.
	WithoutPermit int
	// Requests counts all requests of the agents; Peak is the most in one second, and
	// PeakEvictions the most eviction requests.
	Requests, Peak, PeakEvictions int
	// Evictions and Permits are the durations of the requests for each.
	Evictions, Permits []time.Duration
	// Violated counts how often fewer pods of a workload were ready than its budget
	// requires, and Budgets names these budgets.
	Violated int
	Budgets  []string
	// MostLeaving is the most pods of one workload that were terminating at once, MostPermits
	// the most permits of one that were held.
	MostLeaving, MostPermits int
	// Unlucky are messages that a healthy API server does not return.
	Unlucky []string
}

func (f *fleet) result(begin time.Time, took time.Duration) *Result {
	r := &Result{Took: took, Outcomes: map[evict.Outcome]int{}, Verdicts: map[permits.Verdict]int{}}
	for _, m := range f.members {
		m.tally.mu.Lock()
		for outcome, n := range m.tally.outcomes {
			r.Outcomes[outcome] += n
		}
		for verdict, n := range m.tally.verdicts {
			r.Verdicts[verdict] += n
		}
		r.WithoutPermit += m.tally.withoutPermit
		r.Unlucky = append(r.Unlucky, m.tally.unlucky...)
		m.tally.mu.Unlock()
	}
	all, evictions, held := f.counts.of(kinds), f.counts.of(anEviction), f.counts.of(aPermit)
	r.Requests, r.Peak, r.PeakEvictions = len(all), peak(all, begin), peak(evictions, begin)
	r.Evictions, r.Permits = latencies(evictions), latencies(held)
	f.watcher.mu.Lock()
	defer f.watcher.mu.Unlock()
	for _, n := range f.watcher.violated {
		r.Violated += n
	}
	r.Budgets = slices.Sorted(maps.Keys(f.watcher.violated))
	r.MostLeaving, r.MostPermits = f.watcher.most.leaving, f.watcher.most.permits
	return r
}
