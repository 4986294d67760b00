package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrRestless says that a figure was moved again and again and did not stay where it should be.
var ErrRestless = errors.New("what is available does not rest")

// Settle moves a figure to its place: off returns by how many bytes it is away, correct moves it by that
// much. It is in its place when it was between low and high, both excluded, at five readings in a row:
// what an ended pod held is given back gradually. After 300 readings, one in 100 ms, it is [ErrRestless].
func Settle(ctx context.Context, low, high int64, off func() (int64, error), correct func(by int64) error) error {
	const every, attempts, rests = 100 * time.Millisecond, 300, 5
	seen, by := 0, int64(0)
	err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: every, Factor: 1, Steps: attempts}, func(context.Context) (_ bool, err error) {
		if by, err = off(); err != nil {
			return false, err
		}
		if by > low && by < high {
			seen++
			return seen == rests, nil
		}
		seen = 0
		return false, correct(by)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("%w: %d MiB off", ErrRestless, by>>20)
	}
	return err
}

// Sleep waits for that long, and returns an error when the context ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting: %w", ctx.Err())
	case <-time.After(d):
		return nil
	}
}
