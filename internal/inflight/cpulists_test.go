package inflight_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/inflight"
)

// TestFreeMemoryOnListsIsTheirGrowth: whatever the lists hold and whichever pods end, no more
// counts than they have grown by. Nothing counts after the last pod was relied on, nor before a
// request.
func TestFreeMemoryOnListsIsTheirGrowth(t *testing.T) {
	t.Parallel()
	counted := 0
	for seed := range uint64(200) {
		r, tracker, now := rand.New(rand.NewPCG(seed, 1)), inflight.New(), at(0)
		bytes := r.Int64N(1000)
		read := func() (int64, bool) { return bytes, r.IntN(10) > 0 }
		least, last := bytes, time.Time{}
		for range 60 {
			now = now.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
			bytes = r.Int64N(1000)
			least = min(least, bytes)
			switch uid := fmt.Sprintf("pod-%d", r.IntN(4)); r.IntN(5) {
			case 0:
				tracker.Request(now, false, read)
				tracker.Accept(inflight.Booking{UID: uid, Accepted: now, Deadline: now.Add(time.Minute)})
				tracker.Answered()
				last = now
			case 1:
				tracker.Observe(now, func(there string) bool { return there != uid })
			}
			tracker.ObserveLists(now, read)
			free := tracker.FreeOnLists()
			if free > 0 {
				counted++
			}
			if free < 0 || free > bytes-least {
				t.Fatalf("seed %d: %d count, and the lists have grown by %d at most", seed, free, bytes-least)
			}
			if now.Sub(last) > 2*inflight.HardPatience && free != 0 {
				t.Fatalf("seed %d: %d count %v after the last pod was relied on", seed, free, now.Sub(last))
			}
		}
	}
	if counted < 100 {
		t.Errorf("counted %d times: the states are not worth testing", counted)
	}
}
