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
