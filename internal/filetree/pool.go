package filetree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Why a tree is not counted at all, besides the errors of the function that opens it.
var (
	// ErrElsewhere is what a Start returns for a directory that need not be counted.
	ErrElsewhere = errors.New("not to be counted")
	// ErrBusy is why nothing is counted while as many workers as there may be wait for
	// filesystems that do not answer.
	ErrBusy = errors.New("too many filesystems do not answer")
	// ErrSilent is why a tree is not begun that still holds the worker of an earlier time.
	ErrSilent = errors.New("its filesystem has not answered")
	// ErrNotReached is a tree for which no time was left.
	ErrNotReached = errors.New("there was no time for it")
)

// Tree is what to count.
type Tree struct {
	// Name distinguishes it from all others.
	Name  string
	Start Start
}

// Start opens a directory to count; it runs on a worker, so it may block. ErrElsewhere makes the
// count zero; any other error makes it partial. A Start that looks at many things itself calls
// Breathe on its turn.
type Start func(t *Turn) (fd int, err error)

// Turn is the time that a worker has for one tree.
type Turn struct {
	ctx    context.Context //nolint:containedctx // of the call that the worker carries out
	walker *walker
}

// Context ends with the tree's share of the time.
func (t *Turn) Context() context.Context { return t.ctx }

// Breathe sleeps when the worker is ahead of its share of the CPU, and reports that the
// time is up.
func (t *Turn) Breathe() error {
	t.walker.pause(t.ctx)
	return t.ctx.Err()
}

// Result is the count of one Tree.
type Result struct {
	Count
	// Index is that of the Tree.
	Index int
}

const (
	// spare is how many workers beyond its own a pool may have, in the place of those
	// that a filesystem holds.
	spare = 4
	// settle is how long a worker gets to notice that its time is up.
	settle = 100 * time.Millisecond
)

// Pool counts trees on a few threads of low priority. It may be used again and again,
// by one goroutine at a time.
type Pool struct {
	workers int
	cores   float64
	idle    chan *walker // with their buffers
	// open is put into every walker, and sleep into what paces it; a test replaces them.
	open  func(dir int, name []byte, how *unix.OpenHow) (int, error)
	sleep func(ctx context.Context, wait time.Duration)

	mu sync.Mutex
	// out are the workers that have not come back, among them those that a dead
	// filesystem holds.
	out int
	// holds are the trees that workers are at, by name.
	holds map[string]*hold
}

// hold is a tree that a worker is at.
type hold struct{ replaced bool }

// NewPool makes a pool of at least one worker. Together they take at most cores of
// CPU time in a second, and never more than one core each.
func NewPool(workers int, cores float64) *Pool {
	workers = max(workers, 1)
	return &Pool{
		workers: workers, cores: cores, idle: make(chan *walker, workers),
		open: openDirectory, sleep: sleep, holds: map[string]*hold{},
	}
}

// Out returns how many workers of earlier calls have not come back.
func (p *Pool) Out() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// Holds reports whether a worker is at the tree of that name.
func (p *Pool) Holds(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds[name] != nil
}

// Count counts trees, the first ones first. While others wait, a tree may take half of the time
// that is left. The channel brings a result for each tree that was finished or not begun before the
// context ended, and is closed when all workers have returned. A worker in a system call that does
// not return brings nothing; when its tree's time is up another worker takes its place, and the
// tree is not begun again until the first one has returned. The receiver must also watch the
// context.
func (p *Pool) Count(ctx context.Context, trees []Tree) (<-chan Result, error) {
	r := &round{ctx: ctx, trees: trees, results: make(chan Result, len(trees))}
	p.mu.Lock()
	defer p.mu.Unlock()
	free := min(p.workers, p.workers+spare-p.out)
	if free <= 0 {
		return nil, fmt.Errorf("counting files: %w", ErrBusy)
	}
	for range free {
		p.begin(r) //nolint:contextcheck // the round has it
	}
	return r.results, nil
}

// round is one call of Count.
type round struct {
	ctx     context.Context //nolint:containedctx // of the call that the workers carry out
	trees   []Tree
	results chan Result
	next    atomic.Int32
	left    int // workers, under the pool's mutex
}

// begin starts a worker. The mutex is held.
func (p *Pool) begin(r *round) {
	p.out++
	r.left++
	go p.work(r)
}

func (p *Pool) work(r *round) {
	beModest()
	w := p.take()
	w.open, w.pause = p.open, newPace(p.cores/float64(p.workers), p.sleep).pause
	for replaced := false; !replaced; {
		i := int(r.next.Add(1)) - 1
		if i >= len(r.trees) {
			break
		}
		var count Count
		count, replaced = p.countTree(r, w, i)
		r.results <- Result{Index: i, Count: count}
	}
	p.give(w)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out--
	if r.left--; r.left == 0 {
		close(r.results)
	}
}

// take returns a walker that is not in use.
func (p *Pool) take() *walker {
	select {
	case w := <-p.idle:
		return w
	default:
		return newWalker()
	}
}

func (p *Pool) give(w *walker) {
	select {
	case p.idle <- w:
	default:
	}
}

// countTree counts one tree, and reports whether another worker has taken the place of
// this one meanwhile. What the context leaves no time for is partial at once.
func (p *Pool) countTree(r *round, w *walker, i int) (count Count, replaced bool) {
	if err := r.ctx.Err(); err != nil {
		return Count{Partial: fmt.Errorf("%w: %w", ErrNotReached, err)}, false
	}
	tree := &r.trees[i]
	h := p.hold(tree.Name)
	if h == nil {
		return Count{Partial: ErrSilent}, false
	}
	ctx, cancel := r.share(i)
	defer cancel()
	if end, bounded := ctx.Deadline(); bounded {
		late := time.AfterFunc(until(end)+settle, func() { p.replace(r, tree.Name, h) })
		defer late.Stop()
	}
	count = w.countStart(ctx, tree.Start)
	return count, p.release(tree.Name, h)
}

// share is the time that a tree gets: half of what is left while others wait, so that
// one that never ends leaves some to all of them.
func (r *round) share(i int) (context.Context, context.CancelFunc) {
	end, bounded := r.ctx.Deadline()
	if !bounded || i+1 == len(r.trees) {
		return context.WithCancel(r.ctx)
	}
	return context.WithTimeout(r.ctx, until(end)/2)
}

func until(end time.Time) time.Duration {
	return time.Until(end) //nolint:forbidigo // a share of the time, by which nothing is decided
}

// hold notes that a worker is at a tree; nil when one is already.
func (p *Pool) hold(name string) *hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds[name] != nil {
		return nil
	}
	h := &hold{}
	p.holds[name] = h
	return h
}

func (p *Pool) release(name string, h *hold) (replaced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holds, name)
	return h.replaced
}

// replace starts a worker in the place of one that a tree holds, within the bound.
func (p *Pool) replace(r *round, name string, h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds[name] == h && r.ctx.Err() == nil && p.out < p.workers+spare {
		h.replaced = true
		p.begin(r)
	}
}

// countStart counts one tree.
func (w *walker) countStart(ctx context.Context, start Start) Count {
	fd, err := start(&Turn{ctx: ctx, walker: w})
	switch {
	case errors.Is(err, ErrElsewhere):
		return Count{}
	case err != nil:
		return Count{Partial: err}
	}
	return w.walk(ctx, fd)
}
