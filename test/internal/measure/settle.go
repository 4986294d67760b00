package measure

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrRestless says that a figure was moved again and again and did not stay where it should be.
var ErrRestless = errors.New("what is available does not rest")

// Settle moves a figure to its place: off returns by how many bytes it is away, correct moves it by that
// much. It is in its place when it was between low and high, both excluded, at five readings in a row:
// what an ended pod held is given back gradually. After 30 s it is [ErrRestless].
func Settle(ctx context.Context, low, high int64, off func() (int64, error), correct func(by int64) error) error {
	const attempts, rests, every = 300, 5, 100 * time.Millisecond
	seen, by := 0, int64(0)
	for range attempts {
		var err error
		if by, err = off(); err != nil {
			return err
		}
		if by > low && by < high {
			if seen++; seen == rests {
				return nil
			}
		} else {
			seen = 0
			if err := correct(by); err != nil {
				return err
			}
		}
		if err := Sleep(ctx, every); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %d MiB off", ErrRestless, by>>20)
}
