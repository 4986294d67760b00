package incident

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// What others did in an incident is what they did since it began, and not known where one of
// the two looks failed.
func TestIncidentTellsWhatOthersDid(t *testing.T) {
	t.Parallel()
	failed := errors.New("planted")
	for name, test := range map[string]struct {
		before, after func() (int64, error)
		old           int // how many pods the kubelet evicted before
		want          int64
		faults        int
	}{
		"nothing happened":       {kills(3), kills(3), 0, 0, 0},
		"two processes killed":   {kills(3), kills(5), 2, 2, 0},
		"more than are named":    {kills(3), kills(4), 1000, 1, 0},
		"the first look failed":  {func() (int64, error) { return 0, failed }, kills(5), 0, -1, 1},
		"the second look failed": {kills(3), func() (int64, error) { return 0, failed }, 0, -1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, faults := newNode(), 0
			pods := []*nodepods.Pod{{Pod: rank.Pod{UID: "runs"}}}
			evicted := func(name string, at time.Duration) {
				pods = append(pods, &nodepods.Pod{Pod: rank.Pod{Namespace: "shop", Name: name, UID: name}, KubeletEvictedAt: n.at.Add(at)})
			}
			for i := range test.old {
				evicted(fmt.Sprint("old", i), -time.Duration(i+1)*time.Second)
			}
			tracker := New(test.before, func() []*nodepods.Pod { return pods }, func(string, error) { faults++ })
			tracker.Observe(n.after(time.Second/2, reading{pressure.MemoryAvailable: 90}), thresholds(), transition)
			tracker.oomKills = test.after
			evicted("b", time.Second)
			evicted("a", -time.Second/2) // in the second in which it began, by a clock of whole seconds
			_, ended := tracker.Observe(n.after(transition, nil), thresholds(), transition)
			if got := ended[0]; got.OOMKills != test.want || !slices.Equal(got.Kubelets, []string{"shop/a", "shop/b"}) || faults != test.faults {
				t.Errorf("%+v with %d faults; want %d kills, shop/a, shop/b, %d faults", got, faults, test.want, test.faults)
			}
		})
	}
}

func kills(n int64) func() (int64, error) { return func() (int64, error) { return n, nil } }

// An incident is restored for a day, with no time in the future, and ends with the first sample where it is over.
func TestRestoredIncidents(t *testing.T) {
	t.Parallel()
	n, tracker := newNode(), calm()
	tracker.Observe(n.after(0, reading{pressure.MemoryAvailable: 90}), thresholds(), transition)
	kept := tracker.Open()
	for after, want := range map[time.Duration]int{-time.Hour: 0, transition - 1: 0, transition: 1, restoredFor - 1: 1, restoredFor: -1} {
		restarted, sample := calm(), n.after(0, nil)
		restarted.Restore(kept, n.at.Add(after))
		open := restarted.Open()
		if want < 0 {
			if len(open) != 0 {
				t.Errorf("%v after: open %+v, want none", after, open)
			}
			continue
		}
		if len(open) != 1 || open[0].Short.After(n.at.Add(after)) {
			t.Errorf("%v after: open %+v, want one and none of the future", after, open)
		}
		sample.Time = n.at.Add(after)
		if _, ended := restarted.Observe(sample, thresholds(), transition); len(ended) != want {
			t.Errorf("%v after: ended %+v, want %d", after, ended, want)
		}
	}
}
