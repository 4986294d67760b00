package pressure

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestClockSteps sets the clock of the machine an hour forth and back between two
// samples: time within evictd is the kernel's monotonic clock, which goes on.
//
//nolint:paralleltest // no other test may run while the clock is wrong
func TestClockSteps(t *testing.T) {
	if os.Getenv("EVICTD_OWN_MACHINE") == "" {
		t.Skip("SKIP: only in the virtual machine of make test-cgroup2 may the clock be set")
	}
	step := func(by time.Duration) {
		t.Helper()
		now := unix.NsecToTimeval(time.Now().Add(by).UnixNano())
		must(t, unix.Settimeofday(&now))
	}
	n := mustOpen(t, Options{Signals: []Signal{MemoryAvailable}}, kernel())
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		// Met from the start, by whatever is available.
		judge := NewJudge([]Threshold{softMemory(1<<60, 10*time.Minute), hardMemory(1)}, 0)
		pacer := NewPacer(Pacing{Min: 10 * time.Millisecond, Max: time.Second}, []Threshold{hardMemory(1)})
		first := n.Sample(time.Now())
		judge.Judge(&first)
		pacer.Next(&first)
		began := time.Now()
		step(by)
		if moved := time.Now().Round(0).Sub(began.Round(0)); moved < by-time.Minute || moved > by+time.Minute {
			t.Fatalf("the clock was moved by %v instead of %v", moved, by)
		}
		second := n.Sample(time.Now())
		verdict := judge.Judge(&second)
		step(-by)
		if verdict.Stale || len(verdict.Pressures) != 0 || len(verdict.Waiting) != 1 {
			t.Errorf("a clock that steps by %v: %+v; want the threshold to wait on", by, verdict)
		}
		if due := pacer.Next(&second); due < 10*time.Millisecond || due > time.Second {
			t.Errorf("a clock that steps by %v: the next sample is due in %v", by, due)
		}
	}
}
