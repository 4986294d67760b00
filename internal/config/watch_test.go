package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/strictyaml"
	"github.com/evictd/evictd/internal/testing/must"
)

// applies is longer than the two polls that an edit needs.
const applies = 5 * time.Second

// watched is a running Watch and what it reported.
type watched struct {
	t       *testing.T // the bubble's
	path    string
	reports chan string // each fault, and the EvictionMaxPodGracePeriod of what is applied; no send is to wait
	fails   atomic.Bool // apply does
}

// following runs a test of a file that is followed, with 1 in it. No poll is at the moment at which the test begins.
func following(t *testing.T, inForce *EvictdConfiguration, test func(w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, path: filepath.Join(t.TempDir(), "conf", "evictd.yaml"), reports: make(chan string, 100)}
		put(w, withGrace("1"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Watch(ctx, w.path, inForce, func(c *EvictdConfiguration) error {
				if w.fails.Load() {
					return errors.New("the sampler could not be opened")
				}
				w.reports <- fmt.Sprintf("applied %ds", c.EvictionMaxPodGracePeriod)
				return nil
			}, func(err error) { w.reports <- err.Error() })
		}()
		time.Sleep(time.Second)
		test(w)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch ended with its context: %v", err)
		}
	})
}

// after returns what Watch reports in a time.
func (w *watched) after(d time.Duration) (reported []string) {
	time.Sleep(d)
	synctest.Wait()
	for len(w.reports) > 0 {
		reported = append(reported, <-w.reports)
	}
	return reported
}

// did fails the test where an edit of the file failed.
func (w *watched) did(errs ...error) {
	w.t.Helper()
	must.Succeed(w.t, errs...)
}

// put replaces the file as an editor does, in one step.
func put(w *watched, content string) {
	w.did(os.MkdirAll(filepath.Dir(w.path), 0o700), os.WriteFile(w.path+".new", []byte(content), 0o600))
	w.did(os.Rename(w.path+".new", w.path))
}

// overwrite writes the file in place.
func overwrite(w *watched, content string) { w.did(os.WriteFile(w.path, []byte(content), 0o600)) }

func remove(w *watched, _ string) { w.did(os.RemoveAll(w.path)) }

func removeDirectory(w *watched, _ string) { w.did(os.RemoveAll(filepath.Dir(w.path))) }

// publish swaps links as the kubelet's AtomicWriter does (pkg/volume/util/atomic_writer.go): the file itself never
// changes.
func publish(w *watched, content string) {
	volume := filepath.Dir(w.path)
	link, version := filepath.Join(volume, "..data"), fmt.Sprint("..", time.Now().UnixNano())
	before, _ := os.Readlink(link) // none at first
	w.did(os.Mkdir(filepath.Join(volume, version), 0o700))
	w.did(os.WriteFile(filepath.Join(volume, version, "evictd.yaml"), []byte(content), 0o600))
	w.did(os.Symlink(version, link+"_tmp"), os.Rename(link+"_tmp", link))
	if before != "" {
		w.did(os.RemoveAll(filepath.Join(volume, before)))
		return
	}
	w.did(os.Remove(w.path), os.Symlink(filepath.Join("..data", "evictd.yaml"), w.path))
}

func withGrace(seconds string) string {
	return head + "evictionMaxPodGracePeriod: " + seconds + "\n"
}

func TestWatch(t *testing.T) {
	t.Parallel()
	type edit struct {
		write   func(w *watched, content string) // nil: it stays as it is
		content string
		after   time.Duration
		reports []string // a part of each
	}
	fails := func(w *watched, _ string) { w.fails.Store(true) }
	worksAgain := func(w *watched, _ string) { w.fails.Store(false) }
	tests := map[string][]edit{
		"an edit is applied once": {
			{put, withGrace("2"), applies, []string{"applied 2s"}},
			{overwrite, withGrace("3"), applies, []string{"applied 3s"}},
			{nil, "", time.Hour, nil},
		},
		"what means the same as what is in force is not applied": {
			{put, withGrace("1"), applies, nil},
			{put, "# a comment\n" + withGrace("1"), applies, nil},
			{put, withGrace("1") + "dryRun: true\n", applies, nil},
			{put, withGrace("2"), applies, []string{"applied 2s"}},
		},
		"each fault is reported once, and what is in force again, so that the fault is known to be over": {
			{put, withGrace("-1"), applies, []string{"evictionMaxPodGracePeriod"}},
			{put, head + "dryRun: [", applies, []string{"not YAML"}},
			{nil, "", time.Hour, nil},
			{put, withGrace("1"), time.Hour, []string{"applied 1s"}},
		},
		"half a configuration that is being written in place may be a valid one, and is not put in force": {
			{overwrite, head, 2 * time.Second, nil},
			{overwrite, withGrace("2"), applies, []string{"applied 2s"}},
		},
		"a ConfigMap's volume": {
			{publish, withGrace("1"), applies, nil},
			{publish, withGrace("2"), applies, []string{"applied 2s"}},
			{publish, withGrace("-3"), applies, []string{"evictionMaxPodGracePeriod"}},
			{publish, withGrace("4"), applies, []string{"applied 4s"}},
		},
		"what could not be applied for a reason that passes is applied once it has passed, and refused once": {
			{fails, "", 0, nil},
			{put, withGrace("2"), time.Minute, []string{"sampler could not be opened; trying again every 2s"}},
			{worksAgain, "", applies, []string{"applied 2s"}},
		},
		"what cannot be read is refused, and followed once it can": {
			{func(w *watched, _ string) { w.did(os.Remove(w.path), os.Mkdir(w.path, 0o700)) }, "", time.Hour, []string{"is a directory"}},
			{remove, "", 0, nil},
			{put, head + strings.Repeat("#\n", strictyaml.MaxBytes), applies, []string{"larger than 1 MiB"}},
			{put, withGrace("2"), applies, []string{"applied 2s"}},
		},
	}
	// A file that is missing or empty for a moment is no fault, one that stays so is one, and its return is applied. The
	// same is true for its directory.
	for name, lost := range map[string]edit{
		"no file":      {remove, "", time.Hour, []string{"no such file"}},
		"an empty one": {overwrite, "", time.Hour, []string{"has no text"}},
		"no directory": {removeDirectory, "", time.Hour, []string{"no such file"}},
	} {
		moment := []edit{{lost.write, "", poll, nil}, {put, withGrace("1"), poll, nil}} // one poll finds it gone
		tests[name] = append(slices.Repeat(moment, 10), lost, edit{put, withGrace("1"), time.Hour, []string{"applied 1s"}})
	}
	for name, edits := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			following(t, mustParse(t, withGrace("1")), func(w *watched) {
				for i, e := range edits {
					if e.write != nil {
						e.write(w, e.content)
					}
					if got := w.after(e.after); !slices.EqualFunc(got, e.reports, strings.Contains) {
						w.t.Fatalf("edit %d: reports %q, want %q", i, got, e.reports)
					}
				}
			})
		})
	}
}

// An edit between Load and Watch is not lost, nor is the first valid file where none was in force.
func TestWatchChangedBefore(t *testing.T) {
	t.Parallel()
	for _, inForce := range []*EvictdConfiguration{nil, mustParse(t, withGrace("2"))} {
		following(t, inForce, func(w *watched) {
			if got := w.after(applies); !slices.Equal(got, []string{"applied 1s"}) {
				w.t.Errorf("reports %q, want that 1 s is applied", got)
			}
		})
	}
}
