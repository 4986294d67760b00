package filetree

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrElsewhere is what a Start returns for a directory that need not be counted.
var ErrElsewhere = errors.New("not to be counted")

// ErrBusy is why nothing is counted while all workers of earlier calls still wait for
// a filesystem that does not answer.
var ErrBusy = errors.New("the filesystem has not answered the walk before this one")

// Start opens a directory to count; it runs on a worker, so it may block. ErrElsewhere
// makes the count zero; any other error makes it partial.
type Start func() (fd int, err error)

// Result is the count of one Start.
type Result struct {
	Count
	// Index is that of the Start.
	Index int
}

// Pool counts trees on a few threads of low priority. It may be used again and again,
// by one goroutine at a time.
type Pool struct {
	workers int
	cores   float64
	// out are the workers that have not come back, among them those that a dead
	// filesystem holds.
	out  atomic.Int32
	idle chan *walker // with their buffers
	// open is put into every walker; a test replaces it.
	open func(dir int, name []byte, how *unix.OpenHow) (int, error)
}

// NewPool makes a pool of at least one worker. Together they take at most cores of
// CPU time in a second, and never more than one core each.
func NewPool(workers int, cores float64) *Pool {
	workers = max(workers, 1)
	return &Pool{workers: workers, cores: cores, idle: make(chan *walker, workers), open: openDirectory}
}

// Out returns how many workers of earlier calls have not come back.
func (p *Pool) Out() int { return int(p.out.Load()) }

// Count counts what the starts open, the first ones first. The channel brings a
// result for each start that was finished or not begun before the context ended, and
// is closed when all workers have come back. A worker in a system call that does not
// return brings nothing and keeps its place: whoever receives has to look at the
// context too.
func (p *Pool) Count(ctx context.Context, starts []Start) (<-chan Result, error) {
	free := p.workers - p.Out()
	if free <= 0 {
		return nil, fmt.Errorf("counting files: %w", ErrBusy)
	}
	round := &round{ctx: ctx, starts: starts, results: make(chan Result, len(starts))}
	round.left.Store(int32(free)) //nolint:gosec // a handful
	p.out.Add(int32(free))        //nolint:gosec // a handful
	for range free {
		go p.work(round, p.cores/float64(p.workers))
	}
	return round.results, nil
}

// round is one call of Count.
type round struct {
	ctx     context.Context //nolint:containedctx // of the call that the workers carry out
	starts  []Start
	results chan Result
	next    atomic.Int32
	left    atomic.Int32 // workers
}

func (p *Pool) work(r *round, share float64) {
	beModest()
	w := p.take()
	w.open, w.pause = p.open, newPace(share).pause
	for {
		i := int(r.next.Add(1)) - 1
		if i >= len(r.starts) {
			break
		}
		r.results <- Result{Index: i, Count: w.countStart(r.ctx, r.starts[i])}
	}
	p.give(w)
	p.out.Add(-1)
	if r.left.Add(-1) == 0 {
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

// countStart counts one tree. What the context leaves no time for is partial at once.
func (w *walker) countStart(ctx context.Context, start Start) Count {
	if err := ctx.Err(); err != nil {
		return Count{Partial: err}
	}
	fd, err := start()
	switch {
	case errors.Is(err, ErrElsewhere):
		return Count{}
	case err != nil:
		return Count{Partial: err}
	}
	return w.walk(ctx, fd)
}
