package filetree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Why a task has no result.
var (
	// ErrBusy is a task that was not begun: as many workers as there may be wait for
	// filesystems that do not answer.
	ErrBusy = errors.New("too many filesystems do not answer")
	// ErrSilent is a task that has not returned, in this call or in an earlier one.
	ErrSilent = errors.New("its filesystem has not answered")
	// ErrNotReached is a task for which no time was left.
	ErrNotReached = errors.New("there was no time for it")
)

const (
	// spare is how many workers beyond one a pool may have, in the place of those that a filesystem
	// holds.
	spare = 4
	// settle is how long a worker gets to notice that its time is up.
	settle = 100 * time.Millisecond
)

// Pool runs one task at a time, on a thread of low priority. It is for one goroutine.
type Pool struct {
	cores  float64
	worker chan<- func(*Turn) // takes the next task; nil: there is none

	mu   sync.Mutex
	held map[string]bool // the tasks that have not returned, each of which holds a worker
}

// NewPool makes a pool that takes at most cores of CPU time in a second.
func NewPool(cores float64) *Pool {
	return &Pool{cores: cores, held: map[string]bool{}}
}

// Out returns how many tasks of earlier calls have not returned.
func (p *Pool) Out() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// Do runs a task on the worker, so the task may block. One that looks at many things calls Breathe on its
// turn. Its name distinguishes it from all others.
//
// Do returns what the task returned, or one of the errors above. After ErrSilent the task may still run, and
// what it writes must not be read: it returned neither within its context nor shortly after. It holds its
// worker; the next task gets another one, and the same task is not begun again until it has returned.
func (p *Pool) Do(ctx context.Context, name string, task func(t *Turn) error) error {
	if err := p.hold(ctx, name); err != nil {
		return err
	}
	if p.worker == nil {
		p.worker = p.work()
	}
	end := make(chan error, 1) // has room: nothing receives the end of a task that is late
	p.worker <- func(t *Turn) {
		t.ctx = ctx
		err := task(t)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.held, name)
		end <- err
	}
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-end:
		return err
	case <-time.After(settle): //nolint:forbidigo // a share of the time, by which nothing is decided
		p.Rest()
		return ErrSilent
	}
}

// hold notes that a worker is at a task; an error says why none may be.
func (p *Pool) hold(ctx context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch err := ctx.Err(); {
	case p.held[name]:
		return ErrSilent
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotReached, err)
	case len(p.held) > spare:
		return ErrBusy
	}
	p.held[name] = true
	return nil
}

// work starts a worker.
func (p *Pool) work() chan<- func(*Turn) {
	tasks := make(chan func(*Turn))
	go func() {
		beModest()
		t := newTurn()
		t.pause = newPace(p.cores).pause
		for task := range tasks {
			task(t)
		}
	}()
	return tasks
}

// Rest lets the worker end once it has returned; the next task starts another one.
func (p *Pool) Rest() {
	if p.worker != nil {
		close(p.worker)
		p.worker = nil
	}
}
