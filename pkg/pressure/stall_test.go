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

// stalledNode is a node whose total of stalls the test writes.
type stalledNode struct {
	*Node
	path string
}

func newStalledNode(t *testing.T, full bool, window time.Duration) stalledNode {
	t.Helper()
	root := procTree().Plant(t)
	n := mustOpen(t, Options{HostRoot: root, Signals: []Signal{MemoryStall}, StallFull: full, StallWindow: window}, fakeSystem())
	return stalledNode{n, filepath.Join(root, "proc/pressure/memory")}
}

// at returns memory.stall for a total, with half of it as full.
func (n stalledNode) at(t *testing.T, offset, total time.Duration) Observation {
	t.Helper()
	kernelfiletest.Put(t, n.path, fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n",
		total.Microseconds(), total.Microseconds()/2))
	_ = n.Close() // a regular file, unlike the kernel's, outlives its name
	s := n.Sample(moment(offset))
	return s.Of(MemoryStall)
}

func TestStall(t *testing.T) {
	t.Parallel()
	const ms, s = time.Millisecond, time.Second
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
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newStalledNode(t, test.full, test.window)
			for _, r := range test.readings {
				got := n.at(t, r.at, r.total)
				if want := known((test.window - r.want).Microseconds(), test.window.Microseconds()); got != want {
					t.Errorf("after %v, total %v: %+v, want %+v", r.at, r.total, got, want)
				}
			}
		})
	}
}

// No task can wait longer than the time that has passed.
func TestStallThatCannotBe(t *testing.T) {
	t.Parallel()
	n := newStalledNode(t, false, 2*time.Second)
	n.at(t, 0, 0)
	if got := n.at(t, time.Second, 2100*time.Millisecond); got.State != Unknown || !strings.Contains(fmt.Sprint(got.Err), "grew by 2.1s in 1s") {
		t.Errorf("a stall of 2.1 s in 1 s: %+v, want it unknown", got)
	}
	if got := n.at(t, 2*time.Second, 2200*time.Millisecond); got != known(2_000_000, 2_000_000) {
		t.Errorf("after it: %+v, want it to begin anew", got)
	}
	if got := n.at(t, 3*time.Second, math.MaxInt64); got.State != Unknown {
		t.Errorf("a stall of eternity: %+v, want it unknown", got)
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

func TestStallOfAKernelWithout(t *testing.T) {
	t.Parallel()
	root := tree{"proc/meminfo": meminfoText}.Plant(t)
	s := mustOpen(t, Options{HostRoot: root, Signals: []Signal{MemoryStall, MemoryAvailable}}, fakeSystem()).Sample(moment(0))
	if got := s.Of(MemoryStall); got.State != Absent || !strings.Contains(fmt.Sprint(got.Err), "proc/pressure/memory") {
		t.Errorf("memory.stall is %+v, want it absent, and why", got)
	}
	if got := s.Of(MemoryAvailable); got.State != Known {
		t.Errorf("memory.available is %+v, want it known", got)
	}
}

func TestStallOfThisMachine(t *testing.T) {
	t.Parallel()
	n := mustOpen(t, Options{Signals: []Signal{MemoryStall}, StallWindow: time.Second}, kernel())
	s := n.Sample(time.Now())
	got := s.Of(MemoryStall)
	if got.State == Absent {
		t.Skipf("SKIP: %v", got.Err)
	}
	if got.State != Known || got.Capacity != 1_000_000 || got.Available < 0 || got.Available > got.Capacity {
		t.Errorf("memory.stall %+v", got)
	}
}
