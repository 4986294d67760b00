// Package eventually waits in tests. A wait ends when its condition is met; its limit only ends a
// test that has failed, so a slow machine must not reach it.
package eventually

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/test/cluster"
)

const (
	// limit is that of every wait, times $EVICTD_PATIENCE.
	limit = 2 * time.Minute
	every = 50 * time.Millisecond
)

// Limit is how long a wait takes at most: two minutes, $EVICTD_PATIENCE times as long.
func Limit() time.Duration { return cluster.Patiently(limit) }

// Cleanup returns a context that ends after [Limit], for what may run after the test's own has ended.
func Cleanup() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Limit())
}

// Undo calls undo at the end of the test, with the context of [Cleanup].
func Undo(tb testing.TB, undo func(context.Context)) {
	tb.Helper()
	tb.Cleanup(func() {
		ctx, cancel := Cleanup()
		defer cancel()
		undo(ctx)
	})
}

// Until polls a condition until it is met, and fails the test when it is not met in time. Then it
// prints the states: what the test saw last, and evictd's last decisions.
func Until(tb testing.TB, what string, met func(context.Context) bool, states ...func() string) {
	tb.Helper()
	if err := Poll(tb.Context(), met); err != nil {
		tb.Fatalf("waited %v until %s: %v%s", Limit(), what, err, told(states))
	}
}

// Poll is [Until] where there is no test: it returns an error when the condition was not met in time.
func Poll(ctx context.Context, met func(context.Context) bool) error {
	return wait.PollUntilContextTimeout(ctx, every, Limit(), true,
		func(ctx context.Context) (bool, error) { return met(ctx), nil })
}

// Ticking is a running evictd.
type Ticking interface {
	// Ticks returns evictd_tick_duration_seconds_count, or an error where evictd does not answer.
	Ticks(ctx context.Context) (float64, error)
}

// Ticks waits until evictd has decided that many times more. What has not happened by then does not
// happen: a wait for some seconds would show nothing on a slow machine. A restart begins the count anew.
func Ticks(tb testing.TB, evictd Ticking, count int, states ...func() string) {
	tb.Helper()
	first, last := -1.0, -1.0
	Until(tb, fmt.Sprintf("evictd has ticked %d times", count), func(ctx context.Context) bool {
		ticks, err := evictd.Ticks(ctx)
		if err != nil {
			return false
		}
		if first < 0 || ticks < last {
			first = ticks
		}
		last = ticks
		// One more: the tick that was under way may have sampled before the test changed something.
		return last-first >= float64(count)+1
	}, append(states, func() string { return fmt.Sprintf("ticks: first %v, last %v", first, last) })...)
}

// Barrier is a file that a workload waits for: it moves on when the test opens the barrier, and not
// after a time. It is the file's path on this machine.
type Barrier string

// Open lets the workload move on.
func (b Barrier) Open(tb testing.TB) {
	tb.Helper()
	if err := os.WriteFile(string(b), nil, 0o644); err != nil { //nolint:gosec // the workload is another user
		tb.Fatalf("opening the barrier: %v", err)
	}
}

// Close makes the next workload wait. A barrier that is closed stays so.
func (b Barrier) Close(tb testing.TB) {
	tb.Helper()
	if err := os.RemoveAll(string(b)); err != nil {
		tb.Fatalf("closing the barrier: %v", err)
	}
}

func told(states []func() string) string {
	var all strings.Builder
	for _, state := range states {
		all.WriteString("\n" + state())
	}
	return all.String()
}
