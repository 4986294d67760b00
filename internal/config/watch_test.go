package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// applies is longer than the two polls that an edit needs.
const applies = 5 * time.Second

// watched is a running Watch and what it reported.
type watched struct {
	mu      sync.Mutex
	applied []int32 // each configuration's EvictionMaxPodGracePeriod
	refused []string
	fault   error // what apply answers
	tries   int
}

// watch follows path until the test's bubble ends.
func watch(t *testing.T, path string, inForce *EvictdConfiguration) *watched {
	t.Helper()
	w := &watched{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Watch(ctx, path, inForce, func(c *EvictdConfiguration) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tries++
			if w.fault == nil {
				w.applied = append(w.applied, c.EvictionMaxPodGracePeriod)
			}
			return w.fault
		}, func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, err.Error())
		})
	}()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch ended with its context: %v", err)
		}
	})
	return w
}

// fails has apply answer with a fault from now on, and returns how often it was called.
func (w *watched) fails(fault error) (tries int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
	return w.tries
}

// after lets some time pass, and compares what was reported since the last call: the
// configurations that were applied, and one part of each refusal.
func (w *watched) after(t *testing.T, d time.Duration, applied []int32, refused ...string) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.applied, applied) || !slices.EqualFunc(w.refused, refused, strings.Contains) {
		t.Fatalf("applied %v and refused %q, want %v and %q", w.applied, w.refused, applied, refused)
	}
	w.applied, w.refused = nil, nil
}

func applied(graces ...int32) []int32 { return graces }

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

// overwrite writes the file in place.
func overwrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func withGrace(seconds string) string {
	return head + "evictionMaxPodGracePeriod: " + seconds + "\n"
}

// following runs a test of a file that is followed, with 1 in it and in force. No poll is at the moment at which the test
// begins.
func following(t *testing.T, test func(t *testing.T, path string, w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "evictd.yaml")
		put(t, path, withGrace("1"))
		w := watch(t, path, mustParse(t, withGrace("1")))
		time.Sleep(time.Second)
		test(t, path, w)
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	type edit struct {
		write   func(t *testing.T, path, content string) // nil: it stays as it is
		content string
		after   time.Duration
		applied []int32
		refused []string
	}
	for name, edits := range map[string][]edit{
		"an edit is applied once": {
			{put, withGrace("2"), applies, applied(2), nil}, {overwrite, withGrace("3"), applies, applied(3), nil}, {nil, "", time.Hour, nil, nil},
		},
		"what means the same as what is in force is not applied": {
			{put, withGrace("1"), applies, nil, nil},
			{put, "# a comment\n" + withGrace("1"), applies, nil, nil},
			{put, withGrace("1") + "dryRun: true\n", applies, nil, nil},
			{put, withGrace("2"), applies, applied(2), nil},
		},
		"each fault is reported once, and what is in force again, so that the fault is known to be over": {
			{put, withGrace("-1"), applies, nil, []string{"evictionMaxPodGracePeriod"}},
			{put, head + "dryRun: [", applies, nil, []string{"not YAML"}},
			{nil, "", time.Hour, nil, nil},
			{put, withGrace("1"), time.Hour, applied(1), nil},
		},
		"half a configuration that is being written in place may be a valid one, and is not put in force": {
			{overwrite, head, 2 * time.Second, nil, nil}, {overwrite, withGrace("2"), applies, applied(2), nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			following(t, func(t *testing.T, path string, w *watched) {
				t.Helper()
				for _, e := range edits {
					if e.write != nil {
						e.write(t, path, e.content)
					}
					w.after(t, e.after, e.applied, e.refused...)
				}
			})
		})
	}
}

// An edit between Load and Watch is not lost, nor is the first valid file where none was in force.
func TestWatchChangedBefore(t *testing.T) {
	t.Parallel()
	for _, inForce := range []*EvictdConfiguration{nil, mustParse(t, withGrace("1"))} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "evictd.yaml")
			put(t, path, withGrace("2"))
			watch(t, path, inForce).after(t, applies, applied(2))
		})
	}
}

// TestWatchConfigMap swaps links as the kubelet's AtomicWriter does
// (pkg/volume/util/atomic_writer.go): the file itself never changes.
func TestWatchConfigMap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		w := watch(t, path, mustParse(t, withGrace("1")))
		publish("..2026_02", withGrace("2"))
		remove(t, filepath.Join(volume, "..2026_01"))
		w.after(t, applies, applied(2))
		publish("..2026_03", withGrace("-3"))
		w.after(t, applies, nil, "evictionMaxPodGracePeriod")
		publish("..2026_04", withGrace("4"))
		w.after(t, applies, applied(4))
	})
}

// TestWatchMissing: a file that is missing or empty for a moment is no fault, one that stays so is
// one, and its return is applied. The same is true for its directory.
func TestWatchMissing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lose  func(t *testing.T, path string)
		fault string
	}{
		"no file":      {remove, "no such file"},
		"an empty one": {func(t *testing.T, path string) { t.Helper(); overwrite(t, path, "") }, "empty"},
		"no directory": {func(t *testing.T, path string) { t.Helper(); remove(t, filepath.Dir(path)) }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "conf", "evictd.yaml")
				write := func(content string) {
					t.Helper()
					if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
						t.Fatal(err)
					}
					put(t, path, content)
				}
				write(withGrace("1"))
				w := watch(t, path, mustParse(t, withGrace("1")))
				time.Sleep(time.Second) // so that no poll is at the same moment
				for range 10 {
					test.lose(t, path)
					w.after(t, 2*time.Second, nil) // one poll finds it gone
					write(withGrace("1"))
					w.after(t, 2*time.Second, nil)
				}
				test.lose(t, path)
				w.after(t, time.Hour, nil, test.fault)
				write(withGrace("1"))
				w.after(t, time.Hour, applied(1))
			})
		})
	}
}

// TestWatchTriesAgain: what could not be applied for a reason that passes is applied
// once it has passed, without an edit, and refused once. A file that is not valid
// is not tried again.
func TestWatchTriesAgain(t *testing.T) {
	t.Parallel()
	following(t, func(t *testing.T, path string, w *watched) {
		t.Helper()
		w.fails(errors.New("the sampler could not be opened"))
		put(t, path, withGrace("2"))
		w.after(t, time.Minute, nil, "sampler could not be opened; trying again every 2s")
		if tries := w.fails(nil); tries < 10 {
			t.Errorf("%d tries in a minute", tries)
		}
		w.after(t, time.Minute, applied(2))
	})
}

// TestWatchUnreadable: what cannot be read is refused, and followed once it can.
func TestWatchUnreadable(t *testing.T) {
	t.Parallel()
	following(t, func(t *testing.T, path string, w *watched) {
		t.Helper()
		remove(t, path)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		w.after(t, time.Hour, nil, "is a directory")
		remove(t, path)
		put(t, path, withGrace("2"))
		w.after(t, applies, applied(2))
	})
}
