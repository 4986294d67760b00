package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// watched is a running Watch and what it reported.
type watched struct {
	applied chan *EvictdConfiguration
	refused chan error
	ended   chan error
}

// runsOut is done when a test has waited long enough to have failed.
func runsOut(t *testing.T) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx.Done()
}

// startWatch follows path with times that do not make a test wait.
func startWatch(
	ctx context.Context, t *testing.T, path string, inForce *EvictdConfiguration, tune ...func(*follower),
) *watched {
	t.Helper()
	w := &watched{make(chan *EvictdConfiguration, 100), make(chan error, 100), make(chan error, 1)}
	f := &follower{
		path: path, quiet: 20 * time.Millisecond, absence: 300 * time.Millisecond, again: 20 * time.Millisecond,
		apply:   func(c *EvictdConfiguration) error { w.applied <- c; return nil },
		refused: func(err error) { w.refused <- err },
	}
	if inForce != nil {
		meaning, err := Explain(inForce)
		if err != nil {
			t.Fatal(err)
		}
		f.inForce = meaning
	}
	for _, change := range tune {
		change(f)
	}
	go func() { w.ended <- f.run(ctx) }()
	return w
}

// next returns the next configuration; anything else that is reported fails.
func (w *watched) next(t *testing.T) *EvictdConfiguration {
	t.Helper()
	select {
	case c := <-w.applied:
		return c
	case err := <-w.refused:
		t.Fatalf("refused: %v", err)
	case err := <-w.ended:
		t.Fatalf("ended: %v", err)
	case <-runsOut(t):
		t.Fatal("nothing was applied")
	}
	return nil
}

func (w *watched) nextRefused(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.refused:
		return err
	case c := <-w.applied:
		t.Fatalf("applied: %+v", c)
	case err := <-w.ended:
		t.Fatalf("ended: %v", err)
	case <-runsOut(t):
		t.Fatal("nothing was refused")
	}
	return nil
}

// silent fails if anything was reported.
func (w *watched) silent(t *testing.T) {
	t.Helper()
	select {
	case c := <-w.applied:
		t.Errorf("applied: %+v", c)
	case err := <-w.refused:
		t.Errorf("refused: %v", err)
	default:
	}
}

// put replaces the file as an editor does, in one step.
func put(t *testing.T, path, content string) {
	t.Helper()
	scratch := path + ".new"
	if err := os.WriteFile(scratch, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(scratch, path); err != nil {
		t.Fatal(err)
	}
}

func withGrace(seconds string) string { return head + "evictionMaxPodGracePeriod: " + seconds + "\n" }

func TestWatchAppliesEdits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evictd.yaml")
	put(t, path, withGrace("1"))
	w := startWatch(t.Context(), t, path, nil)
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 1 {
		t.Errorf("without a configuration in force: got %d", got)
	}
	put(t, path, withGrace("2"))
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 2 {
		t.Errorf("replaced: got %d", got)
	}
	if err := os.WriteFile(path, []byte(withGrace("3")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 3 {
		t.Errorf("written in place: got %d", got)
	}
	w.silent(t)
}

// TestWatchUnchanged: what means the same as what is in force is not applied.
func TestWatchUnchanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evictd.yaml")
	applied := 0
	f := &follower{
		path:    path,
		apply:   func(*EvictdConfiguration) error { applied++; return nil },
		refused: func(err error) { t.Error(err) },
	}
	for i, content := range []string{
		withGrace("1"), withGrace("1"), "# a comment\n" + withGrace("1"), withGrace("1") + "dryRun: false\n",
		withGrace("2"),
	} {
		put(t, path, content)
		if f.look(false) {
			t.Fatal("the file is missing")
		}
		if want := 1 + i/4; applied != want {
			t.Errorf("after content %d: applied %d times, want %d", i, applied, want)
		}
	}
}

// TestWatchChangedBefore: an edit between Load and Watch is not lost.
func TestWatchChangedBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evictd.yaml")
	put(t, path, withGrace("2"))
	w := startWatch(t.Context(), t, path, mustParse(t, withGrace("1")))
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 2 {
		t.Errorf("got %d", got)
	}
}

func TestWatchRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evictd.yaml")
	put(t, path, withGrace("1"))
	w := startWatch(t.Context(), t, path, mustParse(t, withGrace("1")))
	put(t, path, withGrace("-1"))
	if err := w.nextRefused(t); !strings.Contains(err.Error(), "evictionMaxPodGracePeriod") {
		t.Errorf("got %v", err)
	}
	put(t, path, head+"dryRun: [")
	if err := w.nextRefused(t); !strings.Contains(err.Error(), "not YAML") {
		t.Errorf("got %v", err)
	}
	// Back to what is in force: said once, so that the fault is known to be over.
	put(t, path, withGrace("1"))
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 1 {
		t.Errorf("got %d", got)
	}
	w.silent(t)
}

// TestWatchConfigMap swaps links as the kubelet's AtomicWriter does
// (pkg/volume/util/atomic_writer.go): the file itself never changes.
func TestWatchConfigMap(t *testing.T) {
	t.Parallel()
	volume := t.TempDir()
	publish := func(version, content string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(volume, version), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(volume, version, "evictd.yaml"), content)
		link := filepath.Join(volume, "..data_tmp")
		if err := os.Symlink(version, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(volume, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	publish("..2026_01", withGrace("1"))
	path := filepath.Join(volume, "evictd.yaml")
	if err := os.Symlink(filepath.Join("..data", "evictd.yaml"), path); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t.Context(), t, path, mustParse(t, withGrace("1")))
	publish("..2026_02", withGrace("2"))
	if err := os.RemoveAll(filepath.Join(volume, "..2026_01")); err != nil {
		t.Fatal(err)
	}
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 2 {
		t.Errorf("got %d", got)
	}
	publish("..2026_03", withGrace("-3"))
	if err := w.nextRefused(t); !strings.Contains(err.Error(), "evictionMaxPodGracePeriod") {
		t.Errorf("got %v", err)
	}
	publish("..2026_04", withGrace("4"))
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 4 {
		t.Errorf("got %d", got)
	}
	w.silent(t)
}

// TestWatchMissing: a file that is away for a moment is no fault, one that stays
// away is one, and its return is applied.
func TestWatchMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evictd.yaml")
	put(t, path, withGrace("1"))
	w := startWatch(t.Context(), t, path, nil)
	w.next(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, path, withGrace("2"))
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 2 {
		t.Errorf("got %d", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := w.nextRefused(t); !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	put(t, path, withGrace("2"))
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 2 {
		t.Errorf("got %d", got)
	}
	w.silent(t)
}

// TestWatchEmpty: a file that was emptied to be written anew is no fault yet.
func TestWatchEmpty(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evictd.yaml")
	put(t, path, "")
	var refused []error
	f := &follower{path: path, apply: func(*EvictdConfiguration) error { return nil }, refused: func(err error) { refused = append(refused, err) }}
	if !f.look(false) || len(refused) > 0 {
		t.Errorf("at first: refused %v", refused)
	}
	if !f.look(true) || len(refused) != 1 || !strings.Contains(refused[0].Error(), "empty") {
		t.Errorf("for long: refused %v", refused)
	}
}

// TestWatchTriesAgain: what could not be applied for a reason that passes is applied
// once it has passed, without an edit, and refused once. A file that is not valid
// is not tried again.
func TestWatchTriesAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "evictd.yaml")
	put(t, path, withGrace("1"))
	tries := 0
	w := startWatch(t.Context(), t, path, mustParse(t, withGrace("1")), func(f *follower) {
		succeed := f.apply
		f.apply = func(c *EvictdConfiguration) error {
			if tries++; tries < 4 {
				return errors.New("the sampler could not be opened")
			}
			return succeed(c)
		}
	})
	put(t, path, withGrace("2"))
	err := w.nextRefused(t)
	if text := err.Error(); !strings.Contains(text, "sampler could not be opened") || !strings.Contains(text, "trying again every 20ms") {
		t.Errorf("refused with %v", err)
	}
	if got := w.next(t).EvictionMaxPodGracePeriod; got != 2 || tries != 4 {
		t.Errorf("got %d after %d tries", got, tries)
	}
	w.silent(t)
}

// TestWatchLooksAgain: only what an edit need not mend is looked at again.
func TestWatchLooksAgain(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "evictd.yaml")
	var refused []string
	f := &follower{
		path:    path,
		apply:   func(*EvictdConfiguration) error { return errors.New("not now") },
		refused: func(err error) { refused = append(refused, err.Error()) },
	}
	put(t, path, withGrace("-1"))
	if f.look(false); f.passing || len(refused) != 1 {
		t.Errorf("a file that is not valid: passing %v, refused %q", f.passing, refused)
	}
	put(t, path, withGrace("1"))
	if f.look(false); !f.passing || len(refused) != 2 || !strings.Contains(refused[1], "not now") {
		t.Errorf("a configuration that could not be applied: passing %v, refused %q", f.passing, refused)
	}
	if f.look(false); !f.passing || len(refused) != 2 {
		t.Errorf("the same again: passing %v, refused %q", f.passing, refused)
	}
	f.apply = func(*EvictdConfiguration) error { return nil }
	if f.look(false); f.passing || f.failed != "" {
		t.Errorf("applied at last: passing %v, failed %q", f.passing, f.failed)
	}
	f.path = directory
	if f.look(false); !f.passing || len(refused) != 3 {
		t.Errorf("what cannot be read: passing %v, refused %q", f.passing, refused)
	}
}

// TestWatchBusyDirectory: changes that never stop do not put the reading off for
// ever.
func TestWatchBusyDirectory(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "evictd.yaml")
	put(t, path, withGrace("1"))
	w := startWatch(t.Context(), t, path, nil, func(f *follower) { f.quiet = 200 * time.Millisecond })
	w.next(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if err := os.WriteFile(filepath.Join(directory, "other"), []byte("x"), 0o600); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	put(t, path, withGrace("2"))
	got := w.next(t).EvictionMaxPodGracePeriod
	close(stop)
	<-stopped
	if got != 2 {
		t.Errorf("got %d", got)
	}
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	t.Run("with its context", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "evictd.yaml")
		put(t, path, withGrace("1"))
		ctx, cancel := context.WithCancel(t.Context())
		w := startWatch(ctx, t, path, nil)
		w.next(t)
		cancel()
		if err := w.end(t); err != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("without a directory", func(t *testing.T) {
		t.Parallel()
		err := Watch(t.Context(), filepath.Join(t.TempDir(), "none", "evictd.yaml"), Default(), nil, nil)
		if err == nil {
			t.Error("got no error")
		}
	})
	t.Run("with its directory", func(t *testing.T) {
		t.Parallel()
		directory := filepath.Join(t.TempDir(), "conf")
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(directory, "evictd.yaml")
		put(t, path, withGrace("1"))
		w := startWatch(t.Context(), t, path, nil)
		w.next(t)
		if err := os.RemoveAll(directory); err != nil {
			t.Fatal(err)
		}
		if err := w.end(t); err == nil || !strings.Contains(err.Error(), "has gone") {
			t.Errorf("got %v", err)
		}
	})
}

func (w *watched) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-runsOut(t):
		t.Fatal("Watch did not end")
		return nil
	}
}
