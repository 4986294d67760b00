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

// opens is the tree of a directory.
func opens(dir string) Tree {
	return does(dir, func(*Turn) error { return nil })
}

// does is the tree of a directory before which something else is done.
func does(dir string, before func(t *Turn) error) Tree {
	return Tree{Name: dir, Start: func(t *Turn) (int, error) {
		if err := before(t); err != nil {
			return -1, err
		}
		return unix.Open(dir, openFlags, 0)
	}}
}

func TestPoolCountsAll(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fault := errors.New("no such place")
	var starts []Tree
	want := map[int]Count{}
	for i := range 20 {
		dir := filepath.Join(root, strconv.Itoa(i))
		for j := range i + 1 {
			put(t, filepath.Join(dir, "d"+strconv.Itoa(j%3), strconv.Itoa(j)), 4096)
		}
		want[i] = expected(t, dir)
		starts = append(starts, opens(dir))
	}
	starts = append(starts,
		does("elsewhere", func(*Turn) error { return ErrElsewhere }),
		does("faulty", func(*Turn) error { return fault }))
	want[20], want[21] = Count{}, Count{Partial: fault}
	for _, workers := range []int{0, 1, 2, 7} {
		pool := NewPool(workers, 1)
		for range 2 {
			results, err := pool.Count(t.Context(), starts)
			if err != nil {
				t.Fatal(err)
			}
			got := map[int]Count{}
			for r := range results {
				got[r.Index] = r.Count
			}
			for i, w := range want {
				if got[i] != w {
					t.Errorf("%d workers: place %d is %+v, want %+v", workers, i, got[i], w)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d workers: %d results, want %d", workers, len(got), len(want))
			}
		}
	}
}

func TestPoolWithoutTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results, err := NewPool(2, 1).Count(ctx, []Tree{does("late", func(*Turn) error {
		t.Error("a place was opened")
		return ErrElsewhere
	})})
	if err != nil {
		t.Fatal(err)
	}
	if r := <-results; !errors.Is(r.Partial, context.Canceled) || !errors.Is(r.Partial, ErrNotReached) {
		t.Errorf("the result is %+v, want one that says why nothing was counted", r)
	}
}

// TestPoolIsNotHeldUp: a filesystem that does not respond holds one worker, which another one
// replaces. The filesystem is not accessed again until it responds, and then the pool is complete
// again.
func TestPoolIsNotHeldUp(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "fine", "file"), 1)
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		dead := func(i int) Tree {
			return does("dead"+strconv.Itoa(i), func(*Turn) error { <-answer; return ErrElsewhere })
		}
		pool := NewPool(1, 1)
		for i := range 1 + spare { // each time one more worker is lost, the first time within the call
			trees := []Tree{opens(filepath.Join(root, "fine"))}
			for j := range i + 1 {
				trees = slices.Insert(trees, 0, dead(j))
			}
			got := inTenSeconds(t, pool, trees)
			last, begun := got[i+1], i < spare // at the last one no worker was left
			if found := last.Partial == nil && last.Inodes == 2; found != begun {
				t.Errorf("%d dead ones: the other place is %+v, want it counted: %t", i+1, last, begun)
			}
			for j := 1; j <= i && begun; j++ {
				if !errors.Is(got[j].Partial, ErrSilent) {
					t.Errorf("a dead one asked again is %+v, want %v", got[j], ErrSilent)
				}
			}
		}
		if _, err := pool.Count(t.Context(), nil); !errors.Is(err, ErrBusy) || pool.Out() != 1+spare || !pool.Holds("dead0") {
			t.Errorf("with no worker left: %v, want %v", err, ErrBusy)
		}
		close(answer)
		synctest.Wait()
		if got := inTenSeconds(t, pool, []Tree{dead(0), opens(filepath.Join(root, "fine"))}); pool.Out() != 0 ||
			got[0].Partial != nil || got[1].Inodes != 2 {
			t.Errorf("in the end %d workers are out and the results are %+v", pool.Out(), got)
		}
	})
}

// inTenSeconds returns the results that come in time, by index.
func inTenSeconds(t *testing.T, pool *Pool, trees []Tree) map[int]Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	results, err := pool.Count(ctx, trees)
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	synctest.Wait()
	got := map[int]Result{}
	for {
		select {
		case r, more := <-results:
			if more {
				got[r.Index] = r
				continue
			}
		default:
		}
		return got
	}
}

// TestPoolLeavesTimeForAll: trees that would take all the time there is get half of
// what is left each, the last one the rest.
func TestPoolLeavesTimeForAll(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "file"), 1)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ends []time.Duration
		endless := func(name string) Tree {
			return does(name, func(turn *Turn) error {
				<-turn.Context().Done()
				ends = append(ends, time.Since(began))
				return turn.Breathe()
			})
		}
		got := inTenSeconds(t, NewPool(1, 1), []Tree{endless("a"), endless("b"), opens(root), endless("c")})
		if want := []time.Duration{5 * time.Second, 7500 * time.Millisecond, 10 * time.Second}; !slices.Equal(ends, want) {
			t.Errorf("the endless ones end after %s, want %s", ends, want)
		}
		for i, want := range []error{context.DeadlineExceeded, context.DeadlineExceeded, nil, context.DeadlineExceeded} {
			if !errors.Is(got[i].Partial, want) {
				t.Errorf("place %d is %+v, want %v", i, got[i], want)
			}
		}
	})
}

// TestPoolReplacesOnce: a worker that returns late and was replaced ends.
func TestPoolReplacesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trees := []Tree{does("late", func(turn *Turn) error {
			<-turn.Context().Done()
			time.Sleep(time.Second) // of the fake clock
			return turn.Breathe()
		})}
		var at, most atomic.Int32
		for i := range 4 {
			trees = append(trees, does(strconv.Itoa(i), func(*Turn) error {
				most.Store(max(most.Load(), at.Add(1)))
				time.Sleep(600 * time.Millisecond) // of the fake clock
				at.Add(-1)
				return ErrElsewhere
			}))
		}
		pool := NewPool(1, 1)
		if got := inTenSeconds(t, pool, trees); most.Load() != 1 || len(got) != 5 || got[4].Partial != nil || pool.Out() != 0 {
			t.Errorf("%d trees at a time, %d workers out, results %+v; want one at a time", most.Load(), pool.Out(), got)
		}
	})
}

// TestPoolIsModest: its threads have a low priority, and sleep when they are ahead of
// their share of the CPU.
func TestPoolIsModest(t *testing.T) {
	t.Parallel()
	pool := NewPool(1, 0.001)
	slept := time.Duration(0)
	pool.sleep = func(_ context.Context, wait time.Duration) { slept += wait }
	results, err := pool.Count(t.Context(), []Tree{does("busy", func(turn *Turn) error {
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
		return ErrElsewhere
	})})
	if err != nil {
		t.Fatal(err)
	}
	if r := <-results; r.Partial != nil || slept < time.Second { // 2 ms are a thousandth of 2 s
		t.Errorf("slept %s, %v; want seconds", slept, r.Partial)
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
