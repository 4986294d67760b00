package measure_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/evictd/evictd/test/internal/measure"
)

// A figure that moves away after it was in its place is moved again; one that never rests ends the wait.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, readings, moves := int64(100), 0, 0
		off := func() (int64, error) {
			if readings++; readings == 4 {
				at = -50
			}
			return at, nil
		}
		correct := func(by int64) error { at -= by; moves++; return nil }
		if err := measure.Settle(t.Context(), -10, 10, off, correct); err != nil || moves != 2 || readings != 9 {
			t.Errorf("%d moves, %d readings, %v", moves, readings, err)
		}
		still := func(int64) error { return nil }
		if err := measure.Settle(t.Context(), -10, 10, func() (int64, error) { return 10, nil }, still); !errors.Is(err, measure.ErrRestless) {
			t.Errorf("never in its place: %v", err)
		}
	})
}
