package inflight_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// A cgroup that no listed pod has is relied on from when it was first seen, and after that time
// never again, however often it is seen.
func TestUnlistedPodIsReliedOnForABoundedTime(t *testing.T) {
	t.Parallel()
	tracker := inflight.New()
	for _, offset := range []time.Duration{0, 10 * time.Second, time.Hour} {
		tracker.ObserveUnlisted([]inflight.Other{{UID: "a", Unlisted: true}}, never, at(offset))
	}
	for _, test := range []struct {
		now    time.Duration
		counts bool
	}{{0, true}, {inflight.UnlistedFor, true}, {inflight.UnlistedFor + 1, false}, {time.Hour, false}} {
		b, counts := tracker.Unlisted("a", pressure.Amounts{}, at(test.now))
		if counts != test.counts || !b.Accepted.Equal(at(0)) {
			t.Errorf("after %v it counts %v, since %v; want %v since it was first seen", test.now, counts, b.Accepted, test.counts)
		}
	}
	tracker.Observe(at(2*time.Hour), never, always)
	if b, _ := tracker.Unlisted("a", pressure.Amounts{}, at(2*time.Hour)); !b.Accepted.IsZero() {
		t.Error("it is remembered although its cgroup has gone")
	}
}

func TestPodEndsSinceItWasFirstSeenToEnd(t *testing.T) {
	t.Parallel()
	tracker, ends := inflight.New(), []*nodepods.Pod{{UID: "a", Terminating: true}, {UID: "b", Finished: true}, {UID: "stays"}}
	tracker.ObserveEnding(ends, at(0))
	tracker.ObserveEnding(ends, at(time.Minute))
	for uid, want := range map[string]time.Time{"a": at(0), "b": at(0), "stays": at(time.Hour)} {
		if got := tracker.EndingSince(uid, at(time.Hour)); !got.Equal(want) {
			t.Errorf("%s ends since %v, want %v", uid, got, want)
		}
	}
	tracker.ObserveEnding(nil, at(2*time.Minute))
	if got := tracker.EndingSince("a", at(time.Hour)); !got.Equal(at(time.Hour)) {
		t.Errorf("a pod that is not listed any more ends since %v", got)
	}
}

func noLists() (int64, bool) { return 0, false }

// What leaves is booked, once and with its first deadline; what does not leave, is not known or
// holds nothing is not, and where it is booked keeps or takes a figure.
func TestOthersAreBookedWhileTheyHoldSomething(t *testing.T) {
	t.Parallel()
	memory := func(amount int64) pressure.Amounts { return pressure.Amounts{}.With(pressure.MemoryAvailable, amount) }
	for _, test := range []struct {
		name        string
		seen        inflight.Other
		new, booked int64 // what is relied on, where it was not booked before, and where it was with 100; negative is nothing
	}{
		{"it leaves", inflight.Other{Leaves: true, Known: true, Expected: memory(7)}, 7, 7},
		{"it leaves, and what it holds is not known", inflight.Other{Leaves: true, Expected: memory(7)}, -1, 100},
		{"it has emptied", inflight.Other{Leaves: true, Known: true, Emptied: true, Expected: memory(0)}, -1, 0},
		{"it stays", inflight.Other{Known: true, Expected: memory(7)}, -1, 7},
		{"it stays and is not known", inflight.Other{}, -1, 100},
		{"it is not listed", inflight.Other{Unlisted: true, Known: true, Expected: memory(7)}, 7, 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.seen.UID = "a"
			for _, booked := range []bool{false, true} {
				tracker, want := inflight.New(), test.new
				if booked {
					tracker.Book(victim("a", 100))
					want = test.booked
				}
				tracker.ObserveUnlisted([]inflight.Other{test.seen}, never, at(0))
				for range 2 {
					tracker.ObserveOthers(&inflight.Others{Time: at(time.Second), Pods: []inflight.Other{test.seen}, Lists: noLists})
				}
				got, relied := inflight.Relied(tracker.All(), pressure.MemoryAvailable, at(time.Second), 0)
				if relied != (want >= 0) || relied && got != want {
					t.Errorf("booked before %v: %d is relied on (%v), want %d", booked, got, relied, want)
				}
			}
		})
	}
}

// A stall is measured anew from the end of a victim of evictd's, and of a pod that others end
// only where it holds a share that matters.
func TestEndThatMattersToAStall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signal  string
		holds   int64
		expects int64
		matters bool
	}{{"", 99, 0, false}, {"", 100, 5, true}, {"memory.stall", 1, 5, true}} {
		tracker := inflight.New()
		if test.signal != "" {
			own := victim("a", test.holds)
			own.Signal = test.signal
			tracker.Accept(own)
		}
		held := pressure.Amounts{}.With(pressure.MemoryAvailable, test.holds).With(pressure.MemoryStall, 5)
		tracker.ObserveOthers(&inflight.Others{Time: at(0), StallShare: 100, Lists: noLists, Pods: []inflight.Other{
			{UID: "a", Leaves: true, Known: true, GraceLeft: time.Minute, Expected: held},
		}})
		if got, _ := inflight.Relied(tracker.All(), pressure.MemoryStall, at(0), 0); got != test.expects {
			t.Errorf("%+v: %d of a stall is expected", test, got)
		}
		tracker.Observe(at(time.Second), never, never)
		if ended := !tracker.LastEnd(pressure.MemoryStall).IsZero(); ended != test.matters || tracker.LastEnd(pressure.MemoryAvailable).IsZero() {
			t.Errorf("%+v: the window is measured anew: %v", test, ended)
		}
	}
}
