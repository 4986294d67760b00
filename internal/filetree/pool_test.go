package filetree

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func opens(dir string) Start {
	return func() (int, error) { return unix.Open(dir, openFlags, 0) }
}

func TestPoolCountsAll(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fault := errors.New("no such place")
	var starts []Start
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
		func() (int, error) { return -1, ErrElsewhere },
		func() (int, error) { return -1, fault })
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
	results, err := NewPool(2, 1).Count(ctx, []Start{func() (int, error) {
		t.Error("a place was opened")
		return -1, ErrElsewhere
	}})
	if err != nil {
		t.Fatal(err)
	}
	if r := <-results; !errors.Is(r.Partial, context.Canceled) {
		t.Errorf("the result is %+v, want one that says why nothing was counted", r)
	}
}

// TestPoolIsNotHeldUp: a filesystem that does not answer costs one worker, not the
// other results, and when it answers the pool is whole again.
func TestPoolIsNotHeldUp(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "dead", "mount", "file"), 1)
	put(t, filepath.Join(root, "fine", "file"), 1)
	answer := make(chan struct{})
	pool := NewPool(2, 1)
	var answered []<-chan Result
	defer func() {
		close(answer)
		for _, results := range answered {
			for r := range results {
				if r.Partial != nil {
					t.Errorf("in the end a result is %+v", r)
				}
			}
		}
	}()
	pool.open = func(dir int, name []byte, how *unix.OpenHow) (int, error) {
		if string(name) == "mount\x00" {
			<-answer
		}
		return openDirectory(dir, name, how)
	}
	dead, fine := opens(filepath.Join(root, "dead")), opens(filepath.Join(root, "fine"))
	for round := range 2 { // each time one of the two workers is lost
		results, err := pool.Count(t.Context(), []Start{dead, fine})
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			if r := <-results; r.Index != 1 || r.Partial != nil || r.Inodes != 2 {
				t.Errorf("the result is %+v, want that of the other place", r)
			}
		}
		answered = append(answered, results)
		for pool.Out() > round+1 { // the worker that is not held comes back
			runtime.Gosched()
		}
	}
	if _, err := pool.Count(t.Context(), []Start{fine}); !errors.Is(err, ErrBusy) || pool.Out() != 2 {
		t.Errorf("with no worker left: %v, want %v", err, ErrBusy)
	}
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
