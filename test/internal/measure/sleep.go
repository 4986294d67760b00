package measure

import (
	"context"
	"fmt"
	"time"
)

// Sleep waits for that long, and returns an error when the context ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting: %w", ctx.Err())
	case <-time.After(d):
		return nil
	}
}
