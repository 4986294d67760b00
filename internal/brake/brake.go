package brake

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/evictd/evictd/pkg/rank"
)

// takeTimeout bounds asking for a slot: a node under hard pressure goes on without one
// after it.
const takeTimeout = 5 * time.Second

// Request asks for a slot for one victim.
type Request struct {
	// Pod is the victim; one without a workload needs no slot.
	Pod *rank.Pod
	// Slots is how many the workload has; 0 is no brake.
	Slots int
	// Lasts is how long the slot is held when nothing is heard of the node any more: until
	// the victim must have ended. While this node says that it is leaving it keeps the
	// slot, see [Brake.Release].
	Lasts time.Duration
	// DryRun asks the API server by server-side dry runs.
	DryRun bool
}

// Verdict is what became of a request for a slot.
type Verdict string

// The verdicts.
const (
	// Granted: the pod has a slot, or needs none.
	Granted Verdict = "Granted"
	// Full: all slots of the workload are taken.
	Full Verdict = "Full"
	// Unknown: the API server could not tell, or its answer was not heard.
	Unknown Verdict = "Unknown"
)

// Verdicts returns every verdict, so that metrics can be created at start.
func Verdicts() []Verdict { return []Verdict{Granted, Full, Unknown} }

// Answer is a verdict and why.
type Answer struct {
	Verdict Verdict
	// Detail says who holds the slots, or what went wrong; "" when Granted.
	Detail string
}

// Recorder is told what the brake does.
type Recorder interface {
	// Slot tells the answer to a request that was made of the API server.
	Slot(v Verdict)
	// SlotsHeld tells how many slots this node holds now.
	SlotsHeld(n int)
	// SlotError tells why a slot could not be kept or given back, or what was left at the
	// start not be found. It is tried again, but where the slot is lost.
	SlotError(err error)
}

// Options are what a [Brake] needs; all of them, except Restore.
type Options struct {
	// Leases is the client of the API, for evictd's own namespace.
	Leases coordinationv1client.LeaseInterface
	// Node is the name of the node, the holder's name.
	Node string
	// Now is the clock. Its times are compared with each other only.
	Now func() time.Time
	// Random returns numbers in [0,1), so that the nodes do not all try the first slot.
	Random func() float64
	// Recorder is told what is done.
	Recorder Recorder
	// Restore looks, once, for slots that an earlier process has left.
	Restore bool
}

// slot is one that this node holds, or may hold.
type slot struct {
	workload string
	index    int
	lease    string    // the Lease's name
	identity string    // its holder
	uid      types.UID // of the Lease as it was written; "" when the answer was not heard
	version  string
	expires  time.Time // by this node's clock, from before it was written
	due      bool      // it is to be renewed
	asked    time.Time // when that was last asked for
	dryRun   bool
}

// seen is a Lease of somebody else's, and since when it has been as it is.
type seen struct {
	version string
	since   time.Time
	lasts   time.Duration
}

// Brake hands out the slots. Its methods may be called from several goroutines, Take from
// one at a time.
type Brake struct {
	options   Options
	returned  chan struct{} // holds one value after something was given back
	outlasted chan struct{} // holds one value after a slot became due for renewal

	mu     sync.Mutex      // guards all below
	held   map[string]slot // by the victim's UID
	taking string          // the UID of the pod that a slot is being taken for; "" when none is
	others map[string]seen // by the Lease's name
	back   []slot          // to be given back
}

// New returns a brake that holds nothing.
func New(options Options) *Brake {
	return &Brake{
		options: options, returned: make(chan struct{}, 1), outlasted: make(chan struct{}, 1),
		held: map[string]slot{}, others: map[string]seen{},
	}
}

// Take takes a free slot of the pod's workload. A pod that has one keeps it, for as long
// as the request says from now on.
func (b *Brake) Take(ctx context.Context, r Request) Answer {
	workload := WorkloadOf(r.Pod)
	if workload == "" || r.Slots == 0 {
		return Answer{Verdict: Granted}
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	answer := b.takeOne(ctx, workload, &r)
	b.end()
	b.options.Recorder.Slot(answer.Verdict)
	return answer
}

// takeOne looks at all slots by one request and tries those that are free one after the
// other. What was looked at may be old by then: only the write decides.
func (b *Brake) takeOne(ctx context.Context, workload string, r *Request) Answer {
	leases, err := b.look(ctx, workload)
	if err != nil {
		return Answer{Verdict: Unknown, Detail: err.Error()}
	}
	first, busy := b.begin(r)
	holders := b.holders(leases, busy, r)
	for i := range r.Slots {
		if len(holders) >= r.Slots { // more than there are, where there were more before
			break
		}
		index := (first + i) % r.Slots
		name := leaseName(workload, index)
		if holders[name] != "" {
			continue
		}
		won, err := b.try(ctx, leases[name], index, r)
		switch {
		case err != nil:
			return Answer{Verdict: Unknown, Detail: err.Error()}
		case won:
			return Answer{Verdict: Granted}
		}
		holders[name] = "somebody who was faster"
	}
	return Answer{Verdict: Full, Detail: "held for " + strings.Join(slices.Sorted(maps.Values(holders)), ", ")}
}

// holders returns who holds which slots, by the Lease's name: by what was read, and this
// node itself for its other victims, also in a dry run.
func (b *Brake) holders(leases map[string]*coordinationv1.Lease, busy map[string]bool, r *Request) map[string]string {
	holders := map[string]string{}
	for name, lease := range leases {
		if !b.free(lease, r) {
			holders[name] = told(lease)
		}
	}
	for name := range busy {
		holders[name] = "another pod on " + b.options.Node
	}
	return holders
}

// begin returns the slot to try first and the Leases that this node holds for other
// victims. What dry runs hold means nothing to a request in earnest.
func (b *Brake) begin(r *Request) (first int, busy map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taking = r.Pod.UID
	first = int(b.options.Random() * float64(r.Slots))
	busy = map[string]bool{}
	for uid, s := range b.held {
		switch {
		case s.dryRun && !r.DryRun:
			delete(b.held, uid)
		case uid == r.Pod.UID && s.index < r.Slots:
			first = s.index
		case uid != r.Pod.UID && s.workload == WorkloadOf(r.Pod):
			busy[s.lease] = true
		}
	}
	b.options.Recorder.SlotsHeld(len(b.held))
	return first, busy
}

func (b *Brake) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taking = ""
}

// uses reports whether the victim of a slot has it again, or is taking one.
func (b *Brake) uses(s slot) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, uid, _ := strings.Cut(s.identity, "/")
	now, held := b.held[uid]
	return held && now.lease == s.lease || uid == b.taking
}

// hold notes a slot of the victim's, and gives back another that it had: of an index that is
// none any more, since there are fewer slots now.
func (b *Brake) hold(uid string, s slot) {
	b.mu.Lock()
	before, held := b.held[uid]
	b.note(uid, s)
	b.mu.Unlock()
	if held && before.lease != s.lease {
		b.giveBack(before)
	}
}

// note does so where the lock is held.
func (b *Brake) note(uid string, s slot) {
	b.held[uid] = s
	delete(b.others, s.lease)
	b.options.Recorder.SlotsHeld(len(b.held))
}

// expired reports whether a Lease of somebody else's has been as it is for as long as it
// holds its slot. It is seen now; the first time starts the wait.
func (b *Brake) expired(name, version string, lasts time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.options.Now()
	for other, s := range b.others {
		if now.Sub(s.since) > s.lasts+unsaid {
			delete(b.others, other) // of a workload that nobody evicts any more
		}
	}
	before, known := b.others[name]
	if !known || before.version != version {
		b.others[name] = seen{version: version, since: now, lasts: lasts}
		return false
	}
	return now.Sub(before.since) >= lasts
}
