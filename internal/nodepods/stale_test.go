package nodepods_test

import (
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/evictd/evictd/internal/nodepods"
)

// TestFaultDeadWatchIsNoticed: a watch that was dead for minutes did not differ from a live one:
// the list counted as known forever. If the server sends bookmarks, three minutes without one show
// it. If it does not, a quiet node is no fault, but a watch that cannot be opened again is.
func TestFaultDeadWatchIsNoticed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bookmark bool
		quiet    time.Duration
		stale    bool
	}{
		"bookmarks, and a quiet moment": {bookmark: true, quiet: 3 * time.Minute},
		"bookmarks, and then none":      {bookmark: true, quiet: 3*time.Minute + time.Second, stale: true},
		"none ever":                     {quiet: 12 * time.Minute},
		"none ever, and no new watch":   {quiet: 12*time.Minute + time.Second, stale: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods, now, watchers := watched(t)
			watcher := <-watchers
			if test.bookmark {
				watcher.Action(watch.Bookmark, bookmark())
			}
			arrive(t, pods, watcher)
			now.step(test.quiet)
			if err := pods.Stale(); (err != nil) != test.stale {
				t.Errorf("stale: %v", err)
			}
		})
	}
}

// The bookmark that ends a streamed list does not show that others follow. What is streamed becomes
// small as it comes.
func TestEndOfAStreamedListIsNoBookmark(t *testing.T) {
	t.Parallel()
	now := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	pods := startWith(t, streaming{1}, nodepods.Options{NodeName: "node-1", Now: now.Now, LabelKeys: []string{"app"}})
	eventually(t, "first list", pods.Synced)
	if got := named(t, pods, "0").Labels; !maps.Equal(got, map[string]string{"app": "web"}) {
		t.Errorf("%d labels are kept, want app alone", len(got))
	}
	now.step(12 * time.Minute)
	if err := pods.Stale(); err != nil {
		t.Error(err)
	}
	now.step(time.Second)
	if pods.Stale() == nil {
		t.Error("12 minutes without anything are not noticed")
	}
}

// A watch that is opened anew is an answer, although a quiet node's delivers nothing for a
// minute: after an outage no pod waits for the first bookmark.
func TestNewWatchIsAnAnswer(t *testing.T) {
	t.Parallel()
	pods, now, watchers := watched(t)
	first := <-watchers
	arrive(t, pods, first)
	now.step(time.Hour)
	if pods.Stale() == nil {
		t.Error("an hour without anything is not noticed")
	}
	first.Stop()
	<-watchers
	eventually(t, "the new watch counts", func() bool { return pods.Stale() == nil })
}
