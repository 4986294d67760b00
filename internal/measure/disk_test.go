package measure

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// TestPodsWithFiguresFromBefore: the age of a pod's missing figures is unknown, and no decision
// waits for them.
func TestPodsWithFiguresFromBefore(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &pressure.Pressure{
		Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable}, Since: now.Add(-time.Minute), SampleTime: now,
	}
	at := func(before time.Duration) usage.DiskUse {
		use := measuretest.DiskUse(1, 1, 1, 1)
		use.Time = now.Add(-before)
		return use
	}
	incomplete := measuretest.DiskUse(1, 1, 1, 1)
	incomplete.NodeFS[usage.Layers].BytesKnown = false
	pods := []*nodepods.Pod{{Pod: rank.Pod{Namespace: "shop", Name: "finished", Marks: rank.Marks{Finished: true}}, CgroupUID: "uid-finished"}}
	for _, name := range []string{"old", "older", "oldest", "new", "incomplete", "unmeasured"} {
		pods = append(pods, &nodepods.Pod{Pod: rank.Pod{Namespace: "shop", Name: name}, CgroupUID: "uid-" + name})
	}
	measured := map[string]usage.DiskUse{
		"uid-old": at(61 * time.Second), "uid-older": at(2 * time.Minute), "uid-oldest": at(2 * time.Minute), "uid-new": at(time.Minute),
		"uid-incomplete": incomplete, "uid-finished": at(time.Hour),
	}
	for range 20 { // the list has no order
		rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		if got := DiskUses(p, pods, measured, 0).Outdated; !slices.Equal(got, []string{"shop/old 1m1s old", "shop/older 2m0s old", "shop/oldest 2m0s old"}) {
			t.Fatalf("%q, want three", got)
		}
	}
}

// The Summary's times have whole seconds: what says 12:00:05 was taken at any moment of that
// second. A source that tells parts of it is taken at its word.
func TestFaultFigureOfTheSameSecondIsOfThePressure(t *testing.T) {
	t.Parallel()
	met := time.Date(2026, 3, 1, 12, 0, 5, 400e6, time.UTC)
	p := &pressure.Pressure{
		Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable}, Since: met, SampleTime: met.Add(time.Minute),
	}
	pods := []*nodepods.Pod{{Pod: rank.Pod{Namespace: "shop", Name: "web"}, CgroupUID: "uid-web"}}
	for at, before := range map[time.Time]int{
		met.Truncate(time.Second):                   0,
		met.Truncate(time.Second).Add(-time.Second): 1,
		met.Add(-time.Millisecond):                  1,
		met:                                         0,
		met.Add(time.Millisecond):                   0,
	} {
		use := measuretest.DiskUse(1, 1, 1, 1)
		use.Time = at
		got := DiskUses(p, pods, map[string]usage.DiskUse{"uid-web": use}, 0).Outdated
		if len(got) != before {
			t.Errorf("a figure of %v is from before %v for %d pods, want %d", at, met, len(got), before)
		}
	}
}
