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

// counts is a task that counts a directory.
func counts(dir string, into *Count) Task {
	return does(dir, func(t *Turn) error {
		fd, err := unix.Open(dir, openFlags, 0)
		if err == nil {
			*into = t.Count(fd)
		}
		return err
	})
}

func does(name string, run func(t *Turn) error) Task { return Task{Name: name, Run: run} }

func TestPoolRunsAll(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fault := errors.New("no such place")
	var tasks []Task
	var want []Count
	got := make([]Count, 20)
	for i := range got {
		dir := filepath.Join(root, strconv.Itoa(i))
		for j := range i + 1 {
			put(t, filepath.Join(dir, "d"+strconv.Itoa(j%3), strconv.Itoa(j)), 4096)
		}
		want = append(want, expected(t, dir))
		tasks = append(tasks, counts(dir, &got[i]))
	}
	tasks = append(tasks, does("faulty", func(*Turn) error { return fault }))
	pool := NewPool(1)
	for range 2 {
		clear(got)
		ends, err := pool.Run(t.Context(), tasks)
		if err != nil || len(ends) != len(tasks) || !errors.Is(ends[len(ends)-1], fault) || errors.Join(ends[:len(ends)-1]...) != nil {
			t.Errorf("%v, %v", ends, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("counted %+v, want %+v", got, want)
		}
	}
}

func TestPoolWithoutTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ends, err := NewPool(1).Run(ctx, []Task{does("late", func(*Turn) error {
		t.Error("it was run")
		return nil
	})})
	if err != nil || !errors.Is(ends[0], ErrNotReached) {
		t.Errorf("%v, %v; want one that says why it was not run", ends, err)
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
		dead := func(i int) Task {
			return does("dead"+strconv.Itoa(i), func(*Turn) error { <-answer; return nil })
		}
		pool := NewPool(1)
		for i := range 1 + spare { // each time one more worker is lost, the first time within the call
			var fine Count
			tasks := []Task{counts(root, &fine)}
			for j := range i + 1 {
				tasks = slices.Insert(tasks, 0, dead(j))
			}
			ends := inTenSeconds(t, pool, tasks)
			begun := i < spare // at the last one no worker was left
			if found := ends[i+1] == nil && fine.Inodes == 2; found != begun {
				t.Errorf("%d dead ones: the other place is %+v, %v, want it counted: %t", i+1, fine, ends[i+1], begun)
			}
			for j := 0; j <= i && begun; j++ {
				if !errors.Is(ends[j], ErrSilent) {
					t.Errorf("a dead one is %v, want %v", ends[j], ErrSilent)
				}
			}
		}
		if _, err := pool.Run(t.Context(), nil); !errors.Is(err, ErrBusy) || pool.Out() != 1+spare {
			t.Errorf("with no worker left: %v, want %v", err, ErrBusy)
		}
		close(answer)
		synctest.Wait()
		var fine Count
		if ends := inTenSeconds(t, pool, []Task{dead(0), counts(root, &fine)}); pool.Out() != 0 || errors.Join(ends...) != nil || fine.Inodes != 2 {
			t.Errorf("in the end %d workers are out and the results are %v, %+v", pool.Out(), ends, fine)
		}
	})
}

// inTenSeconds returns how tasks end in that time, for the workers to notice included.
func inTenSeconds(t *testing.T, pool *Pool, tasks []Task) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ends, err := pool.Run(ctx, tasks)
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	synctest.Wait()
	return ends
}

// TestPoolLeavesTimeForAll: tasks that would take all the time there is get half of
// what is left each, the last one the rest.
func TestPoolLeavesTimeForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ended []time.Duration
		endless := func(name string) Task {
			return does(name, func(turn *Turn) error {
				<-turn.Context().Done()
				ended = append(ended, time.Since(began))
				return turn.Breathe()
			})
		}
		ends := inTenSeconds(t, NewPool(1), []Task{endless("a"), endless("b"), does("fine", func(*Turn) error { return nil }), endless("c")})
		if want := []time.Duration{5 * time.Second, 7500 * time.Millisecond, 10 * time.Second}; !slices.Equal(ended, want) {
			t.Errorf("the endless ones end after %s, want %s", ended, want)
		}
		for i, want := range []error{context.DeadlineExceeded, context.DeadlineExceeded, nil, context.DeadlineExceeded} {
			if !errors.Is(ends[i], want) {
				t.Errorf("task %d ends with %v, want %v", i, ends[i], want)
			}
		}
	})
}

// TestPoolReplacesOnce: a worker that returns late and was replaced ends.
func TestPoolReplacesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tasks := []Task{does("late", func(turn *Turn) error {
			<-turn.Context().Done()
			time.Sleep(time.Second) // of the fake clock
			return turn.Breathe()
		})}
		var at, most atomic.Int32
		for i := range 4 {
			tasks = append(tasks, does(strconv.Itoa(i), func(*Turn) error {
				most.Store(max(most.Load(), at.Add(1)))
				time.Sleep(600 * time.Millisecond) // of the fake clock
				at.Add(-1)
				return nil
			}))
		}
		pool := NewPool(1)
		if ends := inTenSeconds(t, pool, tasks); most.Load() != 1 || errors.Join(ends[1:]...) != nil || pool.Out() != 0 {
			t.Errorf("%d tasks at a time, %d workers out, they end with %v; want one at a time", most.Load(), pool.Out(), ends)
		}
	})
}

// TestPoolIsModest: its threads have a low priority, and sleep when they are ahead of
// their share of the CPU.
func TestPoolIsModest(t *testing.T) {
	t.Parallel()
	pool := NewPool(0.001)
	slept := time.Duration(0)
	pool.sleep = func(_ context.Context, wait time.Duration) { slept += wait }
	ends, err := pool.Run(t.Context(), []Task{does("busy", func(turn *Turn) error {
		priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the system call has 20 less it
		if err != nil || 20-priority != niceness {
			t.Errorf("the thread has niceness %d, %v; want %d", 20-priority, err, niceness)
		}
		class, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioWhoThread, 0, 0)
		if want := uintptr(ioBestEffort<<ioClassShift | ioLowest); errno != 0 || class != want {
			t.Errorf("the thread has I/O priority %#x, %v; want %#x", class, errno, want)
		}
		for i := 0; slept == 0 && i < 1<<18; i++ { // a hundred times 2 ms of CPU at most
			if err := turn.Breathe(); err != nil {
				return err
			}
		}
		return nil
	})})
	if err = errors.Join(append(ends, err)...); err != nil || slept < time.Second { // 2 ms are a thousandth of 2 s
		t.Errorf("slept %s, %v; want seconds", slept, err)
	}
}

// TestWalkIsPaced through small trees as through a large one.
func TestWalkIsPaced(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range breath / 2 {
		put(t, filepath.Join(root, strconv.Itoa(i)), 0)
	}
	pauses := 0
	w := newWalker()
	w.pause = func(context.Context) { pauses++ }
	for range 10 {
		same(t, w.walk(t.Context(), start(t, root)), expected(t, root))
	}
	if pauses != 5 {
		t.Errorf("%d pauses in five times %d files, want one each", pauses, breath)
	}
}

// TestSleep ends with the wait, or with the context.
func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		sleep(t.Context(), time.Minute)
		if got := time.Since(began); got != time.Minute {
			t.Errorf("slept %s, want a minute", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sleep(ctx, time.Minute)
		if got := time.Since(began); got != time.Minute+time.Second {
			t.Errorf("slept on for %s, want a second", got-time.Minute)
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
