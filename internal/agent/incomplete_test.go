package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// unknownSignal runs an agent for a minute on a node that is short of memory and one of whose
// other signals cannot be read.
func unknownSignal(t *testing.T, signal pressure.Signal) (*fakeNode, *Agent) {
	t.Helper()
	n := newFakeNode(1000)
	n.run("greedy", 950, 100)
	policy := hardPolicy()
	policy.Thresholds = append(policy.Thresholds, pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(1), Hard: true})
	a := newAgent(t, n, policy)
	a.options.Sampler = withUnknown{n, signal}
	runFor(t, a, time.Minute)
	return n, a
}

// Guards invariant 1 in the loop: no eviction for a resource of which a reading is missing.
func TestInvariant01IncompleteReadingEvictsNoPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, a := unknownSignal(t, pressure.AllocatableMemoryAvailable)
		if len(n.evictions) != 0 {
			t.Errorf("evicted %v from an incomplete reading", n.victims())
		}
		if diff := cmp.Diff([]decide.Hold{decide.HoldIncompleteReading}, n.holds()); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "allocatableMemory.available has no figure, and no pod is evicted for memory until it has one") ||
			!strings.Contains(err.Error(), "planted") {
			t.Errorf("ready is %v without a complete reading, want why there is none", err)
		}
	})
}

// One hung filesystem stopped the evictions for memory too, for as long as it hung.
func TestFaultHungFilesystemStopsNoMemoryEviction(t *testing.T) {
	t.Parallel()
	for _, signal := range []pressure.Signal{pressure.ImageFSAvailable, pressure.NodeFSInodesFree, pressure.PIDAvailable} {
		synctest.Test(t, func(t *testing.T) {
			n, a := unknownSignal(t, signal)
			n.wantVictims(t, "greedy")
			if err := a.Ready(); err == nil || !strings.Contains(err.Error(), signal.String()+" has no figure") {
				t.Errorf("ready is %v, want that %v has no figure", err, signal)
			}
		})
	}
}

// TestFaultHungFilesystemEndsNoWalk: a plan is carried out while another resource cannot be read.
func TestFaultHungFilesystemEndsNoWalk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, newFakeNode(1000), hardPolicy())
		memory, disk := pressure.MemoryAvailable, pressure.NodeFSAvailable
		a.policy.Thresholds = []pressure.Threshold{{Signal: memory}, {Signal: disk}}
		var sample pressure.Sample
		for _, signal := range pressure.Signals() {
			sample.Observations[signal] = pressure.Observation{State: pressure.Known}
		}
		sample.Observations[disk] = pressure.Observation{Err: errPlanted()}
		for signal, want := range map[pressure.Signal]string{memory: "", disk: "nodefs.available could not be read: planted"} {
			p := pressure.Pressure{Threshold: pressure.Threshold{Signal: signal}, Line: 1}
			if why, _ := decide.Obsolete(&decide.Decision{Pressure: p}, &a.policy.Policy, &sample, &pressure.Verdict{}); why != want {
				t.Errorf("%v: %q, want %q", signal, why, want)
			}
		}
	})
}
