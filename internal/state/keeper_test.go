package state

import (
	"slices"
	"testing"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
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
	for _, r := range k.last.InDoubt {
		uids = append(uids, r.UID)
	}
	return uids
}

func requestOn(uid string, device uint64) Request {
	return Request{UID: uid, Shortage: Shortage{Resource: decide.Resource{Kind: pressure.SpaceKind, Device: device}}}
}

// Guards invariant 9: a request that is under way is part of each state that is handed over until
// it was answered, in place of the one in doubt about the same resource alone.
func TestInvariant09RequestUnderWayIsInEachState(t *testing.T) {
	t.Parallel()
	to, known := &kept{}, State{InDoubt: []Request{requestOn("disk", 1), requestOn("other", 2)}}
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
	known.InDoubt = []Request{requestOn("other", 2)}
	k.Save()
	if want := []string{"other", "sent"}; !slices.Equal(to.uids(), want) || len(known.InDoubt) != 1 {
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
	booked := func() int { return len(known.InFlight.Ledger.Bookings) }
	k := NewKeeper(to, func() State { return known })
	known.InFlight.Ledger.Bookings = make([]inflight.BookingState, 2)
	k.Restored()
	for n, step := range []struct {
		changed   bool
		inFlight  int
		wantSaves int
	}{{false, 2, 0}, {true, 2, 1}, {false, 2, 1}, {false, 3, 2}, {false, 3, 2}, {false, 2, 3}, {true, 1, 4}, {false, 1, 4}} {
		known.InFlight.Ledger.Bookings = make([]inflight.BookingState, step.inFlight)
		k.Changed(step.changed)
		k.Changed(false)
		k.Learn()
		if k.SaveChanged(booked()); to.saves != step.wantSaves {
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
	k.BeforeSend(&Request{})
	k.Answered()
	k.Changed(true)
	k.SaveChanged(1)
	k.SaveNow()
}
