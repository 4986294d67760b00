package pressure

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

func TestStall(t *testing.T) {
	t.Parallel()
	const ms, s = time.Millisecond, time.Second
	const tooMuch = -1                                   // a stall that cannot be: no task can wait longer than the time that has passed
	type reading struct{ at, total, want time.Duration } // want is what was stalled within the window
	for _, test := range []struct {
		name     string
		full     bool
		window   time.Duration
		readings []reading
	}{
		{"what was before the first reading does not count", false, 2 * s, []reading{{0, time.Hour, 0}, {s, time.Hour, 0}}},
		{"a stall within the window", false, 2 * s, []reading{{0, 0, 0}, {s, 300 * ms, 300 * ms}, {1900 * ms, 500 * ms, 500 * ms}}},
		{"it slides out of the window", false, 2 * s, []reading{
			{0, 0, 0}, {500 * ms, 400 * ms, 400 * ms}, {s, 400 * ms, 400 * ms}, {2500 * ms, 400 * ms, 0}, {3 * s, 400 * ms, 0},
		}},
		{"full is the other line", true, 2 * s, []reading{{0, 0, 0}, {s, 300 * ms, 150 * ms}}},
		{"readings further apart than the window count by their share", false, 2 * s, []reading{{0, 0, 0}, {10 * s, s, 200 * ms}}},
		{"stalled all the time", false, 2 * s, []reading{{0, 0, 0}, {2 * s, 2 * s, 2 * s}, {4 * s, 4 * s, 4*s - 2*s}}},
		{"never more than the window", false, s, []reading{{0, 0, 0}, {500 * ms, 1400 * ms, s}}},
		{"between two readings the last one stands", false, 2 * s, []reading{{0, 0, 0}, {50 * ms, 40 * ms, 0}, {100 * ms, 40 * ms, 40 * ms}}},
		{"a total that runs backwards counts from anew", false, 2 * s, []reading{{0, time.Hour, 0}, {s, 10 * ms, 0}, {1500 * ms, 30 * ms, 20 * ms}}},
		{"it begins anew after a stall that cannot be", false, 2 * s, []reading{
			{0, 0, 0}, {s, 2100 * ms, tooMuch}, {2 * s, 2200 * ms, 0}, {3 * s, math.MaxInt64, tooMuch},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := procTree().Plant(t)
			n := mustOpen(t, Options{HostRoot: root, Signals: []Signal{MemoryStall}, StallFull: test.full, StallWindow: test.window}, fakeSystem())
			for _, r := range test.readings {
				kernelfiletest.Put(t, filepath.Join(root, nodePSI), fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n"+
					"full avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", r.total.Microseconds(), r.total.Microseconds()/2))
				_ = n.Close() // a regular file, unlike the kernel's, outlives its name
				s := n.Sample(moment(r.at))
				got, want := s.Of(MemoryStall), known((test.window-r.want).Microseconds(), test.window.Microseconds())
				if r.want == tooMuch {
					want = unknown(got.Err)
				}
				if got != want || r.want == tooMuch && !strings.Contains(fmt.Sprint(got.Err), "the total grew by ") {
					t.Errorf("after %v, total %v: %+v, want %+v", r.at, r.total, got, want)
				}
			}
		})
	}
}

// A window is read with a bounded memory, and the sum stays right.
func TestStallSampledOften(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{100 * time.Millisecond, 130 * time.Millisecond, 900 * time.Millisecond} {
		source := &stallSource{window: 2 * time.Second}
		for at := time.Duration(0); at < time.Minute; at += every {
			if err := source.note(stallPoint{at: moment(at), total: at.Microseconds() * 3 / 10}); err != nil || len(source.points) > stallResolution+1 {
				t.Fatalf("%d points, %v", len(source.points), err)
			}
		}
		if got := source.stalled(); got < 599_000 || got > 601_000 {
			t.Errorf("sampled every %v: %d us of 2 s, want 600,000", every, got)
		}
	}
}
