package taint

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/pressure"
)

// A node wants a taint for each signal under pressure, and keeps what it has until it has been
// watched for a transition period.
func TestWantedByAVerdict(t *testing.T) {
	t.Parallel()
	const transition = 5 * time.Minute
	for name, test := range map[string]struct {
		under   []pressure.Signal
		watched time.Duration
		want    Wanted
	}{
		"calm and new":    {nil, transition - 1, Wanted{Keep: true, DryRun: true}},
		"calm for long":   {nil, transition, Wanted{DryRun: true}},
		"two of a disk":   {[]pressure.Signal{pressure.NodeFSAvailable, pressure.ImageFSInodesFree}, time.Hour, Wanted{Pressures: Disk, DryRun: true}},
		"memory and PIDs": {[]pressure.Signal{pressure.MemoryStall, pressure.PIDAvailable}, 0, Wanted{Pressures: Memory | PIDs, Keep: true, DryRun: true}},
	} {
		verdict := &pressure.Verdict{}
		for _, signal := range test.under {
			verdict.Under[signal] = true
		}
		if got := WantedBy(verdict, test.watched, transition, true); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if test.want.DryRun = false; WantedBy(verdict, test.watched, transition, false) != test.want {
			t.Errorf("%s: not so without a dry run", name)
		}
	}
}

func TestTaintsOfSignals(t *testing.T) {
	t.Parallel()
	verdict := &pressure.Verdict{}
	verdict.Under[pressure.MemoryStall], verdict.Under[pressure.NodeFSInodesFree], verdict.Under[pressure.PIDAvailable] = true, true, true
	want := []string{"evictd.dev/memory-pressure", "evictd.dev/disk-pressure", "evictd.dev/pid-pressure"}
	if diff := cmp.Diff(want, WantedBy(verdict, 0, 0, false).Pressures.Keys()); diff != "" {
		t.Errorf("the taints (-want +got):\n%s", diff)
	}
}
