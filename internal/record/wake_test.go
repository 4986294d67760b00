package record_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/pressure"
)

func TestWakeupsAreAStateAndACount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, source := range pressure.WakeSources() {
		for _, name := range []string{"evictd_wakeups", "evictd_stall_events_total"} {
			if got := value(t, r, name, "source", string(source)); got != 0 {
				t.Errorf("%s of %s is %v before anything was opened; want 0", name, source, got)
			}
		}
	}
	r.Wakeups(pressure.WakeState{Source: pressure.WakeNode, Path: "/proc/pressure/memory", Window: 2 * time.Second})
	r.Wakeups(pressure.WakeState{Source: pressure.WakeKubepods, Err: errors.New("read-only file system")})
	for range 3 {
		r.Woken(pressure.WakeNode)
	}
	expect(t, r, "evictd_stall_events_total", "Kubepods 0", "Node 3")
	expect(t, r, "evictd_wakeups", "Kubepods 0", "Node 1")
	r.Wakeups(pressure.WakeState{Source: pressure.WakeNode, Err: errors.New("it has gone")})
	if got := value(t, r, "evictd_wakeups", "source", "Node"); got != 0 {
		t.Errorf("evictd_wakeups of a source that has ended is %v; want 0", got)
	}
	lines := r.lines(t)
	for _, line := range lines {
		delete(line, "ts")
	}
	const off = "the kernel does not wake the loop, which goes on by pacing alone"
	want := []map[string]any{
		{"level": "info", "msg": "the kernel wakes the loop", "source": "Node", "window_seconds": 2.0},
		{"level": "info", "msg": off, "source": "Kubepods", "error": "read-only file system"},
		{"level": "info", "msg": off, "source": "Node", "error": "it has gone"},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the log, one line for each change and none for an event (-want +got):\n%s", diff)
	}
}
