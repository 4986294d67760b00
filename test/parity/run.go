package parity

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Options configure a run.
type Options struct {
	// Seed is the seed of the first state; each next state has the next seed.
	Seed uint64
	// States is how many states are compared.
	States int
	// Ranker replaces evictd's own; nil for evictd's.
	Ranker Ranker
	// Failures is the number of unexplained differences after which to stop; 0 means at the
	// first.
	Failures int
}

// Result is the result of a run.
type Result struct {
	// States is how many were compared, Rankings and Pods how many orders and positions.
	States, Rankings, Pods int
	// Signals counts the orders of each signal; Largest is the largest node.
	Signals map[string]int
	Largest int
	// Named counts the states in which a difference had an effect.
	Named map[Difference]int
	// Failed are the states with an unexplained difference, as they were generated.
	Failed []*State
}

// Run generates states and compares them, on every core.
func Run(ctx context.Context, options Options) (*Result, error) {
	result := &Result{Named: map[Difference]int{}, Signals: map[string]int{}}
	var next atomic.Int64
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for ctx.Err() == nil {
				index := next.Add(1) - 1
				if index >= int64(options.States) {
					return nil
				}
				state := Generate(options.Seed + uint64(index)) //nolint:gosec // never negative
				report, err := Compare(ctx, state, options.Ranker)
				if err != nil {
					return fmt.Errorf("comparing the state of seed %d: %w", state.Seed, err)
				}
				mu.Lock()
				result.add(state, report)
				enough := len(result.Failed) > options.Failures
				mu.Unlock()
				if enough {
					return nil
				}
			}
			return ctx.Err()
		})
	}
	return result, group.Wait()
}

func (r *Result) add(state *State, report *Report) {
	r.States++
	r.Largest = max(r.Largest, len(state.Pods))
	for signal, orders := range report.Signals {
		r.Signals[signal] += orders
		r.Rankings += orders
	}
	r.Pods += report.Pods
	for d := range report.Named {
		r.Named[d]++
	}
	if len(report.Unexplained) > 0 {
		r.Failed = append(r.Failed, state)
	}
}

// Print writes the result, with each difference and the number of states that had it.
func (r *Result) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d orders of %d pods in all\n%d states, %d unexplained differences\n",
		r.Rankings, r.Pods, r.States, len(r.Failed))
	for _, d := range Differences() {
		if err == nil {
			_, err = fmt.Fprintf(w, "  %-20s %d\n", d, r.Named[d])
		}
	}
	return err
}
