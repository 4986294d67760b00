package permits

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/pools"
	"github.com/evictd/evictd/pkg/rank"
)

// acquireTimeout bounds the acquisition of a permit: after it a node under hard pressure continues
// without one.
const acquireTimeout = 5 * time.Second

// Request requests the permits of one victim.
type Request struct {
	// Pod is the victim.
	Pod *rank.Pod
	// Limits are the sizes of the pools of which it needs a permit each.
	Limits pools.Limits
	// Lasts is how long a permit is held without an update from the node: until the victim must
	// have ended. While this node reports that the victim is terminating, the victim keeps its
	// permits, see [Semaphore.ReleaseEnded].
	Lasts time.Duration
	// DryRun sends the requests as server-side dry runs.
	DryRun bool
}

// Verdict is what became of a request for a permit.
type Verdict string

// The verdicts.
const (
	// Granted: the pod has a permit of each pool, or needs none.
	Granted Verdict = "Granted"
	// Full: all permits of a pool are taken.
	Full Verdict = "Full"
	// Unknown: the API server could not tell, or there was no response.
	Unknown Verdict = "Unknown"
)

// Verdicts returns every verdict, so that metrics can be created at start.
func Verdicts() []Verdict { return []Verdict{Granted, Full, Unknown} }

// Answer is a verdict and why.
type Answer struct {
	Verdict Verdict
	// Pool is the one of which there was no permit; the zero value when Granted.
	Pool pools.Pool
	// Detail names the holders of the permits, or the error; "" when Granted.
	Detail string
}

// Recorder receives what the semaphore does.
type Recorder interface {
	// Permit reports the result of requesting a pod's permits from the API server.
	Permit(v Verdict)
	// PermitsHeld reports how many permits this node holds now.
	PermitsHeld(n int)
	// PermitError reports why a permit could not be renewed or released, or why the permits from
	// before the start could not be found. The request is repeated, unless the permit is lost.
	PermitError(err error)
}

// Client reads and writes the Leases of one namespace, as client-go's client of Leases does.
type Client interface {
	// Get returns a Lease.
	Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error)
	// List returns the Leases that the options select.
	List(ctx context.Context, options metav1.ListOptions) (*coordinationv1.LeaseList, error)
	// Create makes a Lease and returns it as it was written.
	Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error)
	// Update changes a Lease in the version that it names, and returns it as it was written.
	Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error)
	// Delete removes a Lease.
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// Options are what a [Semaphore] needs; all of them, except Restore.
type Options struct {
	// Leases is the client of the API, for evictd's own namespace.
	Leases Client
	// Node is the name of the node, the holder's name.
	Node string
	// Now is the clock. Its times are compared with each other only.
	Now func() time.Time
	// Random returns numbers in [0,1), so that the nodes do not all try the first permit.
	Random func() float64
	// Recorder receives what the semaphore does.
	Recorder Recorder
	// Restore looks, once, for permits that an earlier process has left.
	Restore bool
}

// permit is one that this node holds, or may hold.
type permit struct {
	pool     string // its name
	index    int
	lease    string    // the Lease's name
	identity string    // its holder
	uid      types.UID // of the Lease as it was written; "" when there was no response
	version  string
	expires  time.Time // by this node's clock, from before it was written
	due      bool      // it is to be renewed
	asked    time.Time // the time of the last such request
	dryRun   bool
}

// key is a victim, by its UID, and the pool of one of its permits.
type key struct{ victim, pool string }

// key returns whose permit it is.
func (p *permit) key() key {
	_, victim, _ := strings.Cut(p.identity, "/")
	return key{victim, p.pool}
}

// seen is a Lease of another holder, and since when it has not changed.
type seen struct {
	version string
	since   time.Time
	lasts   time.Duration
}

// Semaphore hands out the permits. Its methods may be called from several goroutines, Acquire from
// one at a time.
type Semaphore struct {
	options   Options
	returned  chan struct{} // holds one value after something was released
	outlasted chan struct{} // holds one value after a permit became due for renewal

	mu        sync.Mutex // guards all below
	held      map[key]permit
	acquiring string          // the UID of the pod that permits are being taken for; "" when none are
	others    map[string]seen // by the Lease's name
	back      []permit        // to be released
}

// New returns a semaphore that holds nothing.
func New(options Options) *Semaphore {
	return &Semaphore{
		options: options, returned: make(chan struct{}, 1), outlasted: make(chan struct{}, 1),
		held: map[key]permit{}, others: map[string]seen{},
	}
}

// Acquire takes a free permit of each pool of the pod's, or none. A pod that has one keeps it, for
// as long as the request says from now on.
func (b *Semaphore) Acquire(ctx context.Context, r Request) Answer {
	all := r.Limits.Of(r.Pod)
	if len(all) == 0 {
		return Answer{Verdict: Granted}
	}
	ctx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	answer := b.acquireAll(ctx, all, &r)
	b.options.Recorder.Permit(answer.Verdict)
	return answer
}

// acquireAll takes a permit of each pool. When one has none, it releases those that it has taken.
func (b *Semaphore) acquireAll(ctx context.Context, all []pools.Pool, r *Request) Answer {
	b.acquire(r.Pod.UID)
	defer b.acquire("")
	var taken []key
	for _, pool := range all {
		k := key{r.Pod.UID, pool.Name}
		had := b.holds(k)
		answer := b.acquireOne(ctx, pool, r)
		if answer.Verdict != Granted {
			b.release(taken)
			answer.Pool = pool
			return answer
		}
		if !had {
			taken = append(taken, k)
		}
	}
	return Answer{Verdict: Granted}
}

// acquireOne reads all permits by one request and tries the free ones one after the other. The
// result of the read may be stale by then: only the write decides.
func (b *Semaphore) acquireOne(ctx context.Context, pool pools.Pool, r *Request) Answer {
	leases, err := b.look(ctx, pool.Name)
	if err != nil {
		return Answer{Verdict: Unknown, Detail: err.Error()}
	}
	first, busy := b.begin(pool, r)
	holders := b.holders(leases, busy, r)
	for i := range pool.Size {
		if len(holders) >= pool.Size { // more than there are, where there were more before
			break
		}
		index := (first + i) % pool.Size
		name := leaseName(pool.Name, index)
		if holders[name] != "" {
			continue
		}
		won, err := b.try(ctx, leases[name], pool.Name, index, r)
		switch {
		case err != nil:
			return Answer{Verdict: Unknown, Detail: err.Error()}
		case won:
			return Answer{Verdict: Granted}
		}
		holders[name] = "a faster node"
	}
	return Answer{Verdict: Full, Detail: "held for " + strings.Join(slices.Sorted(maps.Values(holders)), ", ")}
}

// holders returns the holders of the permits, by the Lease's name: those that were read, and this
// node itself for its other victims, also in a dry run.
func (b *Semaphore) holders(leases map[string]*coordinationv1.Lease, busy map[string]bool, r *Request) map[string]string {
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

// begin returns the permit of a pool to try first and the Leases that this node holds for other
// victims. What dry runs hold means nothing to a request that is none.
func (b *Semaphore) begin(pool pools.Pool, r *Request) (first int, busy map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = int(b.options.Random() * float64(pool.Size))
	busy = map[string]bool{}
	for k, s := range b.held {
		switch {
		case s.dryRun && !r.DryRun:
			delete(b.held, k)
		case k.pool != pool.Name:
		case k.victim != r.Pod.UID:
			busy[s.lease] = true
		case s.index < pool.Size:
			first = s.index
		}
	}
	b.options.Recorder.PermitsHeld(len(b.held))
	return first, busy
}

// acquire records for which pod permits are being taken.
func (b *Semaphore) acquire(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acquiring = uid
}

func (b *Semaphore) holds(k key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, held := b.held[k]
	return held
}

// uses reports whether the victim of a permit has it again, or is taking one.
func (b *Semaphore) uses(s permit) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := s.key()
	now, held := b.held[k]
	return held && now.lease == s.lease || k.victim == b.acquiring
}

// hold records a permit of the victim's, and releases another one of the pool that it had, whose index
// is no longer valid because there are fewer permits now.
func (b *Semaphore) hold(s permit) {
	b.mu.Lock()
	before, held := b.held[s.key()]
	b.note(s)
	b.mu.Unlock()
	if held && before.lease != s.lease {
		b.releaseLater(before)
	}
}

// note does so where the lock is held.
func (b *Semaphore) note(s permit) {
	b.held[s.key()] = s
	delete(b.others, s.lease)
	b.options.Recorder.PermitsHeld(len(b.held))
}

// expired reports whether a Lease of another holder has not changed for as long as it holds its
// permit. The first call starts the wait.
func (b *Semaphore) expired(name, version string, lasts time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.options.Now()
	for other, s := range b.others {
		if now.Sub(s.since) > s.lasts+unsaid {
			delete(b.others, other) // of a workload whose pods are no longer evicted
		}
	}
	before, known := b.others[name]
	if !known || before.version != version {
		b.others[name] = seen{version: version, since: now, lasts: lasts}
		return false
	}
	return now.Sub(before.since) >= lasts
}
