package parity

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Result is the result of a run.
type Result struct {
	// States is how many were compared, Rankings and Pods how many orders and positions.
	States, Rankings, Pods int
	// Signals counts the orders of each signal; Largest is the largest node.
	Signals map[string]int
	Largest int
	// Named counts the states in which a difference had an effect.
	Named map[Difference]int
	// Failed counts the states with an unexplained difference. Smallest is the smallest of them, nil for none, and
	// Faults are its differences.
	Failed   int
	Smallest *State
	Faults   []string
}

// enough is how many failed states are found before a run ends: many nodes are small, so that one of them is easy to read.
const enough = 100

// Run generates that many states and compares them, on every core. Each next state has the next seed.
func Run(ctx context.Context, seed uint64, states int, generate func(seed uint64) *State) (*Result, error) {
	result := &Result{Named: map[Difference]int{}, Signals: map[string]int{}}
	var next atomic.Int64
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for ctx.Err() == nil {
				index := next.Add(1) - 1
				if index >= int64(states) {
					return nil
				}
				state := generate(seed + uint64(index)) //nolint:gosec // never negative
				report, err := Compare(ctx, state)
				if err != nil {
					return fmt.Errorf("comparing the state of seed %d: %w", state.Seed, err)
				}
				mu.Lock()
				result.add(state, report)
				ended := result.Failed >= enough
				mu.Unlock()
				if ended {
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
		r.Failed++
		if r.Smallest == nil || state.size() < r.Smallest.size() {
			r.Smallest, r.Faults = state, report.Unexplained
		}
	}
}

// size is how much of a state there is to read.
func (s *State) size() int {
	return len(s.Pods) + len(s.Readings) + len(s.Thresholds.Hard) + len(s.Thresholds.Soft)
}

// String says what was compared, with each difference and the number of states that had it.
func (r *Result) String() string {
	text := fmt.Appendf(nil, "%d orders of %d pods in all, by signal %v\n%d states, %d unexplained differences\n", r.Rankings, r.Pods, r.Signals, r.States, r.Failed)
	for _, d := range Differences() {
		text = fmt.Appendf(text, "  %-20s %d\n", d, r.Named[d])
	}
	return string(text)
}

// Explain returns the smallest state that failed as text, with its differences. What is long is cut: the seed gives
// it again.
func (r *Result) Explain() (string, error) {
	written, err := json.MarshalIndent(r.Smallest, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing a state: %w", err)
	}
	return fmt.Sprintf("%.10000s\n%.5000s", written, strings.Join(r.Faults, "\n")), nil
}
