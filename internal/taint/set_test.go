package taint

import (
	"testing"

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

// A node wants a taint for each signal under pressure. What else follows from a verdict is in internal/sim.
func TestEachSignalUnderPressureIsWanted(t *testing.T) {
	t.Parallel()
	verdict := &pressure.Verdict{}
	for _, signal := range []pressure.Signal{pressure.MemoryStall, pressure.NodeFSAvailable, pressure.ImageFSInodesFree, pressure.PIDAvailable} {
		verdict.Under[signal], verdict.Held[signal] = true, signal != pressure.NodeFSAvailable
	}
	all := Memory | PIDs | Disk
	for soft, want := range map[bool]Set{false: all, true: all | all.Preferring()} {
		if got := WantedBy(verdict, 0, 0, soft, false); got != (Wanted{Pressures: want}) {
			t.Errorf("soft %t: %+v, want %+v", soft, got, want)
		}
	}
}
