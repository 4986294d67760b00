package filetree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Why a task has no result, or none is begun.
var (
	// ErrBusy is why nothing is run while as many workers as there may be wait for
	// filesystems that do not answer.
	ErrBusy = errors.New("too many filesystems do not answer")
	// ErrSilent is a task that has not returned, in this call or in an earlier one.
	ErrSilent = errors.New("its filesystem has not answered")
	// ErrNotReached is a task for which no time was left.
	ErrNotReached = errors.New("there was no time for it")
)

// Task is something to look at on a filesystem.
type Task struct {
	// Name distinguishes it from all others.
	Name string
	// Run is called on a worker, so it may block. One that looks at many things itself calls
	// Breathe on its turn.
	Run func(t *Turn) error
}

// Turn is the time that a worker has for one task.
type Turn struct {
	ctx    context.Context //nolint:containedctx // of the call that the worker carries out
	walker *walker
}

// Context ends with the task's share of the time.
func (t *Turn) Context() context.Context { return t.ctx }

// Breathe sleeps when the worker is ahead of its share of the CPU, and reports that the
// time is up.
func (t *Turn) Breathe() error {
	t.walker.pause(t.ctx)
	return t.ctx.Err()
}

// Count counts the tree of an open directory, and closes it.
func (t *Turn) Count(fd int) Count { return t.walker.walk(t.ctx, fd) }

const (
	// spare is how many workers beyond one a pool may have, in the place of those that a filesystem
	// holds.
	spare = 4
	// settle is how long a worker gets to notice that its time is up.
	settle = 100 * time.Millisecond
)

// Pool runs tasks one after the other, on a thread of low priority. It may be used again and again,
// by one goroutine at a time.
type Pool struct {
	cores float64
	sleep func(ctx context.Context, wait time.Duration) // which a test replaces

	mu sync.Mutex
	// out is how many workers have not come back, among them those that a dead
	// filesystem holds.
	out int
	// holds are the tasks that workers are at, by name.
	holds map[string]*hold
}

// hold is a task that a worker is at.
type hold struct{ replaced bool }

// NewPool makes a pool that takes at most cores of CPU time in a second.
func NewPool(cores float64) *Pool {
	return &Pool{cores: cores, sleep: sleep, holds: map[string]*hold{}}
}

// Out returns how many workers of earlier calls have not come back.
func (p *Pool) Out() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// Run runs tasks, the first ones first, until all have returned or shortly after the context ends. It
// returns what each task returned, or ErrSilent or ErrNotReached: such a task may still run, and what it
// writes must not be read.
//
// While others wait, a task may take half of the time that is left. One that does not return then holds
// its worker; another worker takes that one's place, and the task is not begun again, in later calls
// either, until it has returned.
func (p *Pool) Run(ctx context.Context, tasks []Task) ([]error, error) {
	r := &round{ctx: ctx, tasks: tasks, ends: make(chan end, len(tasks))}
	if err := p.beginOne(r); err != nil {
		return nil, err
	}
	ends := r.collect(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range tasks {
		if errors.Is(ends[i], ErrNotReached) && p.holds[tasks[i].Name] != nil {
			ends[i] = ErrSilent
		}
	}
	return ends, nil
}

// round is one call of Run.
type round struct {
	ctx   context.Context //nolint:containedctx // of the call that the workers carry out
	tasks []Task
	ends  chan end // has room for all; closed when all workers have returned
	next  atomic.Int32
	left  int // workers, under the pool's mutex
}

// end is what a task returned.
type end struct {
	index int
	err   error
}

// collect returns how the tasks ended.
func (r *round) collect(ctx context.Context) []error {
	ends := make([]error, len(r.tasks))
	for i := range ends {
		ends[i] = ErrNotReached
	}
	done, late := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case e, more := <-r.ends:
			if !more {
				return ends
			}
			ends[e.index] = e.err
		case <-done:
			timer := time.NewTimer(settle)
			defer timer.Stop()
			done, late = nil, timer.C
		case <-late:
			return ends
		}
	}
}

func (p *Pool) beginOne(r *round) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out > spare {
		return fmt.Errorf("looking at files: %w", ErrBusy)
	}
	p.begin(r)
	return nil
}

// begin starts a worker. The mutex is held.
func (p *Pool) begin(r *round) {
	p.out++
	r.left++
	go p.work(r)
}

func (p *Pool) work(r *round) {
	beModest()
	w := newWalker()
	w.pause = newPace(p.cores, p.sleep).pause
	for replaced := false; !replaced; {
		i := int(r.next.Add(1)) - 1
		if i >= len(r.tasks) {
			break
		}
		e := end{index: i}
		replaced, e.err = p.run(r, w, i)
		r.ends <- e
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out--
	if r.left--; r.left == 0 {
		close(r.ends)
	}
}

// run runs one task, and reports whether another worker has taken the place of this one meanwhile.
func (p *Pool) run(r *round, w *walker, i int) (replaced bool, err error) {
	if err = r.ctx.Err(); err != nil {
		return false, fmt.Errorf("%w: %w", ErrNotReached, err)
	}
	task := &r.tasks[i]
	h := p.hold(task.Name)
	if h == nil {
		return false, ErrSilent
	}
	ctx, cancel := r.share(i)
	defer cancel()
	if end, bounded := ctx.Deadline(); bounded {
		late := time.AfterFunc(until(end)+settle, func() { p.replace(r, task.Name, h) })
		defer late.Stop()
	}
	err = task.Run(&Turn{ctx: ctx, walker: w})
	return p.release(task.Name, h), err
}

// share is the time that a task gets: half of what is left while others wait, so that
// one that never ends leaves some to all of them.
func (r *round) share(i int) (context.Context, context.CancelFunc) {
	end, bounded := r.ctx.Deadline()
	if !bounded || i+1 == len(r.tasks) {
		return context.WithCancel(r.ctx)
	}
	return context.WithTimeout(r.ctx, until(end)/2)
}

func until(end time.Time) time.Duration {
	return time.Until(end) //nolint:forbidigo // a share of the time, by which nothing is decided
}

// hold notes that a worker is at a task; nil when one is already.
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

// replace starts a worker in the place of one that a task holds, within the bound.
func (p *Pool) replace(r *round, name string, h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds[name] == h && r.ctx.Err() == nil && p.out <= spare {
		h.replaced = true
		p.begin(r)
	}
}
