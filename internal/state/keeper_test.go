package state

import (
	"slices"
	"testing"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// kept is a memory that counts, and has what was handed over last.
type kept struct {
	last          State
	saves, awaits int
	saving        func() // called while a state is handed over; nil is nothing
}

func (k *kept) Save(s State) func() {
	if k.saving != nil {
		k.saving()
	}
	k.last, k.saves = s, k.saves+1
	return func() { k.awaits++ }
}

// uids returns the pods of the requests that were handed over last.
func (k *kept) uids() []string {
	var uids []string
	for _, v := range k.last.InFlight.Victims {
		uids = append(uids, v.UID)
	}
	return uids
}

func requestOn(uid string, device uint64) decide.InDoubt {
	return decide.InDoubt{
		Attempt:  decide.Attempt{Entry: rank.Entry{Pod: &rank.Pod{UID: uid}}},
		Pressure: pressure.Pressure{Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable}, Observed: pressure.Observation{Device: device}},
	}
}

// requests is the state with requests in doubt.
func requests(open ...decide.InDoubt) (s State) {
	for i := range open {
		s.InFlight.Victims = append(s.InFlight.Victims, *open[i].Victim())
	}
	return s
}

// Guards invariant 9: a request that is under way is part of each state that is handed over until
// it was answered, in place of the one in doubt about the same resource alone.
func TestInvariant09RequestUnderWayIsInEachState(t *testing.T) {
	t.Parallel()
	to, known := &kept{}, requests(requestOn("disk", 1), requestOn("other", 2))
	k := NewKeeper(to, func() State { return known })
	k.Learn()
	if to.saves != 0 {
		t.Error("what is learned for the next request was handed over")
	}
	sent := requestOn("sent", 1)
	done := make(chan struct{})
	go func() { defer close(done); k.BeforeSend(&sent) }()
	k.Learn() // the loop continues
	<-done
	if want := []string{"other", "sent"}; to.awaits != 1 || !slices.Equal(to.uids(), want) {
		t.Errorf("before the request %v was kept, and waited for %d times; want %v, once", to.uids(), to.awaits, want)
	}
	known = requests(requestOn("other", 2))
	k.Save()
	if want := []string{"other", "sent"}; !slices.Equal(to.uids(), want) || len(known.InFlight.Victims) != 1 {
		t.Errorf("while it is under way %v is kept, want %v", to.uids(), want)
	}
	k.Answered()
	if want := []string{"other"}; !slices.Equal(to.uids(), want) {
		t.Errorf("after its answer %v is kept, want %v", to.uids(), want)
	}
}

// Guards invariant 9: a state is handed over before another one can be joined, so that a tick does not
// put an older state in place of the one with the request that is about to be sent.
func TestInvariant09OlderStateReplacesNoRequest(t *testing.T) {
	t.Parallel()
	var k *Keeper
	to := &kept{saving: func() {
		if k.mu.TryLock() {
			k.mu.Unlock()
			t.Error("another state can be handed over first")
		}
	}}
	k = NewKeeper(to, func() State { return State{} })
	sent := requestOn("sent", 1)
	k.Save()
	k.BeforeSend(&sent)
	k.Answered()
	k.SaveNow()
}

// A tick hands over what it changed, once, and nothing where it changed nothing.
func TestKeeperSavesChangesOnce(t *testing.T) {
	t.Parallel()
	to, known := &kept{}, State{}
	k := NewKeeper(to, func() State { return known })
	k.Restored()
	for n, step := range []struct {
		changed   bool
		wantSaves int
	}{{false, 0}, {true, 1}, {false, 1}, {true, 2}} {
		k.Changed(step.changed)
		k.Changed(false)
		k.Learn()
		if k.SaveChanged(); to.saves != step.wantSaves {
			t.Errorf("step %d: saved %d times, want %d", n, to.saves, step.wantSaves)
		}
	}
	if k.SaveNow(); to.awaits != 1 {
		t.Errorf("at the end: waited for %d states, want 1", to.awaits)
	}
}

func TestKeeperWithoutMemoryKeepsNothing(t *testing.T) {
	t.Parallel()
	k := NewKeeper(nil, func() State { t.Error("exported for nothing"); return State{} })
	k.Restored()
	k.BeforeSend(&decide.InDoubt{})
	k.Answered()
	k.Changed(true)
	k.SaveChanged()
	k.SaveNow()
}
