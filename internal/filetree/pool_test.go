package filetree

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// task is one task of a test.
type task struct {
	name string
	run  func(t *Turn) error
}

// counts is a task that counts a directory.
func counts(dir string, into *Count) task {
	return task{dir, func(t *Turn) error {
		fd, err := unix.Open(dir, openFlags, 0)
		if err == nil {
			*into = t.Count(fd, func(uint64) bool { return true })
		}
		return err
	}}
}

// doAll returns how tasks end in two seconds each, once the workers have noticed.
func doAll(t *testing.T, pool *Pool, tasks ...task) (ends []error) {
	t.Helper()
	defer pool.Rest()
	for _, task := range tasks {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		ends = append(ends, pool.Do(ctx, task.name, task.run))
		cancel()
	}
	return ends
}

func TestPoolWithoutTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := NewPool(1).Do(ctx, "late", func(*Turn) error {
		t.Error("it was run")
		return nil
	})
	if !errors.Is(err, ErrNotReached) {
		t.Errorf("%v; want why it was not run", err)
	}
}

// TestPoolIsNotHeldUp: a filesystem that does not respond holds one worker, which another one
// replaces. The filesystem is not accessed again until it responds, and then the pool is complete
// again.
func TestPoolIsNotHeldUp(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "file"), 1)
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var tasks []task
		pool := NewPool(1)
		for i := range 1 + spare { // each time one more worker is lost
			var fine Count
			tasks = append(tasks, task{"dead" + strconv.Itoa(i), func(*Turn) error { <-answer; return nil }})
			ends := doAll(t, pool, append(slices.Clone(tasks), counts(root, &fine))...)
			begun := i < spare // at the last one no worker was left
			if last := ends[i+1]; begun && (last != nil || fine.Inodes != 2) || !begun && !errors.Is(last, ErrBusy) {
				t.Errorf("%d dead ones: the other place is %+v, %v, want it counted: %t", i+1, fine, last, begun)
			}
			for _, end := range ends[:i+1] {
				if !errors.Is(end, ErrSilent) {
					t.Errorf("a dead one is %v, want %v", end, ErrSilent)
				}
			}
			if pool.Out() != i+1 {
				t.Errorf("%d tasks have not returned, want %d", pool.Out(), i+1)
			}
		}
		close(answer)
		synctest.Wait()
		var fine Count
		if ends := doAll(t, pool, append(tasks, counts(root, &fine))...); pool.Out() != 0 || errors.Join(ends...) != nil || fine.Inodes != 2 {
			t.Errorf("in the end %d tasks are out and the results are %v, %+v", pool.Out(), ends, fine)
		}
	})
}

// TestPoolReplacesOnce: a worker that returns late and was replaced ends. Each task has its own end.
func TestPoolReplacesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tasks := []task{{"late", func(turn *Turn) error {
			<-turn.ctx.Done()
			time.Sleep(time.Second) // of the fake clock
			return turn.Breathe()
		}}}
		var at, most atomic.Int32
		for i := range 4 {
			tasks = append(tasks, task{strconv.Itoa(i), func(*Turn) error {
				most.Store(max(most.Load(), at.Add(1)))
				time.Sleep(600 * time.Millisecond) // of the fake clock
				at.Add(-1)
				return nil
			}})
		}
		fault := errors.New("no such place")
		tasks = append(tasks, task{"faulty", func(*Turn) error { return fault }})
		pool := NewPool(1)
		ends := doAll(t, pool, tasks...)
		if !errors.Is(ends[0], ErrSilent) || most.Load() != 1 || errors.Join(ends[1:5]...) != nil || !errors.Is(ends[5], fault) || pool.Out() != 0 {
			t.Errorf("%d tasks at a time, %d out, they end with %v; want one at a time", most.Load(), pool.Out(), ends)
		}
	})
}

// TestPoolIsModest: its threads have a low priority, and sleep when they are ahead of
// their share of the CPU.
func TestPoolIsModest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // only its sleeps take time by its clock
		began, pool := time.Now(), NewPool(0.001)
		defer pool.Rest()
		err := pool.Do(t.Context(), "busy", func(turn *Turn) error {
			priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the system call has 20 less it
			if err != nil || 20-priority != niceness {
				t.Errorf("the thread has niceness %d, %v; want %d", 20-priority, err, niceness)
			}
			class, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioWhoThread, 0, 0)
			if want := uintptr(ioBestEffort<<ioClassShift | ioLowest); errno != 0 || class != want {
				t.Errorf("the thread has I/O priority %#x, %v; want %#x", class, errno, want)
			}
			for i := 0; time.Since(began) == 0 && i < breath<<18; i++ { // a hundred times 2 ms of CPU at most
				if err := turn.Breathe(); err != nil {
					return err
				}
			}
			return nil
		})
		if slept := time.Since(began); err != nil || slept < time.Second { // 2 ms are a thousandth of 2 s
			t.Errorf("slept %s, %v; want seconds", slept, err)
		}
	})
}

// TestWalkIsPaced through small trees as through a large one.
func TestWalkIsPaced(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range breath / 2 {
		put(t, filepath.Join(root, strconv.Itoa(i)), 0)
	}
	pauses := 0
	w := newTurn()
	w.pause = func(context.Context) { pauses++ }
	for range 10 {
		same(t, walk(t.Context(), w, start(t, root)), expected(t, root))
	}
	if pauses != 5 {
		t.Errorf("%d pauses in five times %d files, want one each", pauses, breath)
	}
}

// TestPauseEnds with the context.
func TestPauseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // its clock stands still but for the sleep
		began, ahead := time.Now(), newPace(0.001)
		ahead.spent -= time.Minute // which are a thousand of its clock
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ahead.pause(ctx)
		if slept := time.Since(began); slept != time.Second {
			t.Errorf("slept for %s, want a second", slept)
		}
	})
}

// TestPace is about the arithmetic: what a thread took and how long it should sleep.
func TestPace(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	p := &pace{share: 0.2}
	for _, step := range []struct{ now, spent, want time.Duration }{
		{5 * ms, 1 * ms, 0},               // as it should be
		{10 * ms, 3 * ms, 0},              // 1 ms ahead is nothing
		{15 * ms, 6 * ms, 15 * ms},        // 3 ms ahead: to 30 ms, when 6 ms are due
		{30 * ms, 6 * ms, 0},              // slept
		{1030 * ms, 6 * ms, 0},            // the disk was waited for
		{1035 * ms, 11 * ms, 0},           // 5 ms of what was not taken
		{1040 * ms, 16 * ms, 15 * ms},     // but no more: 3 ms ahead
		{2000 * ms, 116 * ms, 0 * ms},     // 100 ms in 960 are less than a fifth
		{2001 * ms, 1000 * ms, 4394 * ms}, // a burst is slept off
	} {
		got := p.due(step.now, step.spent)
		if got.Round(ms) != step.want.Round(ms) {
			t.Errorf("at %s, having taken %s: sleep %s, want %s", step.now, step.spent, got, step.want)
		}
	}
}
