package taint

import (
	"testing"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// TestEachSignalHasOneTaint: a kind that has no entry here must not taint the node for
// another one.
func TestEachSignalHasOneTaint(t *testing.T) {
	t.Parallel()
	keys := map[pressure.Kind]string{
		pressure.MemoryKind: "evictd.dev/memory-pressure",
		pressure.PIDKind:    "evictd.dev/pid-pressure",
		pressure.SpaceKind:  "evictd.dev/disk-pressure",
		pressure.InodeKind:  "evictd.dev/disk-pressure",
	}
	for _, signal := range pressure.Signals() {
		if got := Of(signal).Keys(); len(got) != 1 || got[0] != keys[signal.Kind()] {
			t.Errorf("%v taints the node with %q, want %q alone", signal, got, keys[signal.Kind()])
		}
	}
}

// A node wants a taint for each signal under pressure, and keeps what it has until it has been
// watched for a transition period.
func TestWantedByAVerdict(t *testing.T) {
	t.Parallel()
	const transition = 5 * time.Minute
	for name, test := range map[string]struct {
		under, held []pressure.Signal
		watched     time.Duration
		soft        bool
		want        Wanted
	}{
		"calm and new":    {watched: transition - 1, want: Wanted{Keep: true, DryRun: true}},
		"calm for long":   {watched: transition, soft: true, want: Wanted{DryRun: true}},
		"two of a disk":   {under: []pressure.Signal{pressure.NodeFSAvailable, pressure.ImageFSInodesFree}, watched: time.Hour, want: Wanted{Pressures: Disk, DryRun: true}},
		"memory and PIDs": {under: []pressure.Signal{pressure.MemoryStall, pressure.PIDAvailable}, want: Wanted{Pressures: Memory | PIDs, Keep: true, DryRun: true}},
		"soft, in its grace period": {
			under: []pressure.Signal{pressure.MemoryAvailable, pressure.PIDAvailable}, watched: time.Hour, soft: true,
			want: Wanted{Pressures: (Memory | PIDs).Preferring(), DryRun: true},
		},
		"soft, and one of two holds": {
			under: []pressure.Signal{pressure.NodeFSAvailable, pressure.ImageFSInodesFree}, held: []pressure.Signal{pressure.ImageFSInodesFree},
			watched: time.Hour, soft: true, want: Wanted{Pressures: Disk | Disk.Preferring(), DryRun: true},
		},
	} {
		verdict := &pressure.Verdict{}
		for _, signal := range test.under {
			verdict.Under[signal] = true
		}
		for _, signal := range test.held {
			verdict.Held[signal] = true
		}
		if got := WantedBy(verdict, test.watched, transition, test.soft, true); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if test.want.DryRun = false; WantedBy(verdict, test.watched, transition, test.soft, false) != test.want {
			t.Errorf("%s: not so without a dry run", name)
		}
	}
}
