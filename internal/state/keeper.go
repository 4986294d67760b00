package state

import (
	"slices"
	"sync"

	"github.com/evictd/evictd/internal/decide"
)

// Memory keeps states for the next process.
type Memory interface {
	// Save keeps a state in place of the one before. It does not wait; what it returns waits
	// until the state is kept, for a bounded moment.
	Save(s State) (kept func())
}

// Keeper hands what its owner knows to a [Memory] when it should: before a request is sent, after
// each report, at the end, and after a tick that changed something. See docs/adr/0014. Only
// [Keeper.BeforeSend] may be called from another goroutine than the owner's.
type Keeper struct {
	to     Memory // nil keeps nothing
	export func() State

	changed bool // something of the state was changed since it was handed over

	mu      sync.Mutex // guards all below, and hands states over in the order in which they were joined
	known   State
	sending *decide.InDoubt // the request that is under way; nil where there is none
}

// NewKeeper returns a keeper that hands over what export returns, which is called on the owner's
// goroutine alone. A memory that is nil keeps nothing.
func NewKeeper(to Memory, export func() State) *Keeper { return &Keeper{to: to, export: export} }

// Restored takes what is known at the start for what is kept already.
func (k *Keeper) Restored() { k.Learn() }

// Learn takes what is known now for the next request: it is handed over together with it.
func (k *Keeper) Learn() {
	if k.to == nil {
		return
	}
	known := k.export()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = known
}

// Changed notes whether something of the state was changed.
func (k *Keeper) Changed(is bool) { k.changed = k.changed || is }

// SaveChanged hands the state over where something of it was changed since it last was.
func (k *Keeper) SaveChanged() {
	if k.changed {
		k.Save()
	}
}

// Save hands the state over.
func (k *Keeper) Save() {
	k.changed = false
	if k.to != nil {
		k.handOver()
	}
}

// SaveNow is Save, and waits until the state is kept: the process ends.
func (k *Keeper) SaveNow() {
	if k.to != nil {
		k.handOver()()
	}
}

// BeforeSend hands a request over that is about to be sent, with what was known last: if the
// process ends before its answer, the next one reads its pod before any other is evicted.
func (k *Keeper) BeforeSend(r *decide.InDoubt) {
	if k.to != nil {
		k.begin(r)()
	}
}

// Answered hands over what is known after a plan was carried out, or its request was settled:
// nothing is under way any more, and what became of the request is part of the state.
func (k *Keeper) Answered() {
	k.mu.Lock()
	k.sending = nil
	k.mu.Unlock()
	k.Save()
}

func (k *Keeper) handOver() (kept func()) {
	k.Learn()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.to.Save(k.joined())
}

func (k *Keeper) begin(r *decide.InDoubt) (kept func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sending = r
	return k.to.Save(k.joined())
}

// joined returns what is known with the request that is under way, in place of one in doubt about
// the same resource. The lock is held.
func (k *Keeper) joined() State {
	joined := k.known
	if k.sending != nil {
		others := slices.DeleteFunc(slices.Clone(joined.InFlight.Victims), func(v decide.Victim) bool {
			return v.Phase == decide.Requested && v.Request.Resource() == k.sending.Resource()
		})
		joined.InFlight.Victims = append(others, *k.sending.Victim())
	}
	return joined
}
