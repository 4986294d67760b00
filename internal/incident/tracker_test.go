package incident

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

const transition = 5 * time.Minute

// thresholds are a soft and a hard line of memory and one of each filesystem.
func thresholds() []pressure.Threshold {
	return []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(100), MinReclaim: pressure.Absolute(20), Hard: true},
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(200), MinReclaim: pressure.Absolute(20), Grace: 30 * time.Second},
		{Signal: pressure.AllocatableMemoryAvailable, Quantity: pressure.Absolute(50), Hard: true},
		{Signal: pressure.NodeFSAvailable, Quantity: pressure.Absolute(100), Hard: true},
		{Signal: pressure.ImageFSAvailable, Quantity: pressure.Absolute(100), Hard: true},
		{Signal: pressure.NodeFSInodesFree, Quantity: pressure.Absolute(100), Hard: true},
	}
}

// node makes samples of a node that has plenty of everything but what the test says.
type node struct {
	at     time.Time
	device map[pressure.Signal]uint64
}

func newNode() *node {
	return &node{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), device: map[pressure.Signal]uint64{}}
}

// calm returns a tracker of a node on which others do nothing.
func calm() *Tracker {
	return New(kills(0), func() []*nodepods.Pod { return nil }, nil)
}

type reading = map[pressure.Signal]int64

// unknown is a reading that could not be made.
const unknown = -1 << 40

func (n *node) after(d time.Duration, readings reading) *pressure.Sample {
	n.at = n.at.Add(d)
	sample := pressure.Sample{Time: n.at}
	for s := range sample.Observations {
		signal := pressure.Signal(s)
		seen := pressure.Observation{State: pressure.Known, Available: 900, Capacity: 1000, Device: n.device[signal]}
		if available, told := readings[signal]; told {
			seen.Available = available
		}
		if seen.Available == unknown {
			seen = pressure.Observation{}
		}
		sample.Observations[s] = seen
	}
	return &sample
}

// One shortage is one incident, whatever disturbs it.
func TestIncidentGoesOn(t *testing.T) {
	t.Parallel()
	low := reading{pressure.MemoryAvailable: 90}
	for _, test := range []struct {
		name  string
		steps func(n *node) []*pressure.Sample
	}{
		{"across a reading at the line", func(n *node) []*pressure.Sample {
			return []*pressure.Sample{n.after(time.Second, low), n.after(time.Second, reading{pressure.MemoryAvailable: 200}), n.after(time.Second, low)}
		}},
		{"across the hard threshold after the soft one", func(n *node) []*pressure.Sample {
			return []*pressure.Sample{n.after(time.Second, reading{pressure.MemoryAvailable: 150}), n.after(time.Second, low)}
		}},
		{"across two unknown readings", func(n *node) []*pressure.Sample {
			missing := reading{pressure.MemoryAvailable: unknown}
			return []*pressure.Sample{n.after(time.Second, low), n.after(time.Second, missing), n.after(time.Hour, missing), n.after(time.Second, low)}
		}},
		{"while the reclaim is missing", func(n *node) []*pressure.Sample {
			margin := reading{pressure.MemoryAvailable: 210}
			return []*pressure.Sample{n.after(time.Second, low), n.after(time.Hour, margin), n.after(time.Hour, margin), n.after(time.Second, low)}
		}},
		{"within the transition period", func(n *node) []*pressure.Sample {
			return []*pressure.Sample{n.after(time.Second, low), n.after(transition-time.Second, nil), n.after(time.Second, low)}
		}},
		{"for another signal of the same resource", func(n *node) []*pressure.Sample {
			return []*pressure.Sample{n.after(time.Second, low), n.after(time.Second, reading{pressure.AllocatableMemoryAvailable: 10})}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tracker := calm()
			ids := map[string]bool{}
			for _, sample := range test.steps(newNode()) {
				began, ended := tracker.Observe(sample, thresholds(), transition)
				if len(ended) > 0 {
					t.Errorf("ended: %+v", ended)
				}
				for _, i := range began {
					ids[i.ID] = true
				}
			}
			if len(ids) != 1 || !tracker.Any() {
				t.Errorf("incidents %v, want one that is open", ids)
			}
		})
	}
}

// idOf returns the ID of the open incident of a signal on a device; "" where there is none.
func idOf(tracker *Tracker, signal pressure.Signal, device uint64) string {
	s := decide.Situation{Pressure: pressure.Pressure{
		Threshold: pressure.Threshold{Signal: signal}, Observed: pressure.Observation{Device: device},
	}}
	tracker.Into(&s)
	return s.Incident
}

// It is tried to warn until that was done, once for an incident, also after a restart.
func TestIncidentWarnsOnce(t *testing.T) {
	t.Parallel()
	n, tracker, asked, dry := newNode(), calm(), 0, true
	soft := &pressure.Pressure{Threshold: pressure.Threshold{Signal: pressure.MemoryAvailable}}
	warn := func(tells, want bool, wantAsked int) {
		t.Helper()
		told := tracker.Warn(soft, dry, func() bool { asked++; return tells })
		if told != want || asked != wantAsked {
			t.Errorf("told %t, asked %d times; want %t, %d", told, asked, want, wantAsked)
		}
	}
	warn(true, false, 0) // no incident
	tracker.Observe(n.after(0, reading{pressure.MemoryAvailable: 150}), thresholds(), transition)
	warn(false, false, 1)
	warn(true, true, 2)
	warn(true, false, 2)
	kept := tracker.Open()
	tracker = calm()
	tracker.Restore(kept, n.at)
	warn(true, false, 2)
	tracker.Adopt(true)
	warn(true, false, 2)
	dry = false
	tracker.Adopt(false) // the pod was told that nothing happens to it
	warn(true, true, 3)
	tracker.Adopt(false)
	warn(true, false, 3)
}

func TestIncidentEnds(t *testing.T) {
	t.Parallel()
	n, tracker := newNode(), calm()
	tracker.Observe(n.after(0, reading{pressure.MemoryAvailable: 90}), thresholds(), transition)
	tracker.Observe(n.after(time.Second, reading{pressure.MemoryAvailable: 40}), thresholds(), transition)
	for _, dryRun := range []bool{true, false} { // the real one replaces the simulated one
		tracker.Add(idOf(tracker, pressure.MemoryAvailable, 0), Victim{Pod: "shop/a", UID: "a", DryRun: dryRun})
	}
	if _, ended := tracker.Observe(n.after(transition-time.Millisecond, nil), thresholds(), transition); len(ended) > 0 {
		t.Errorf("ended before the transition period was over: %+v", ended)
	}
	_, ended := tracker.Observe(n.after(time.Millisecond, nil), thresholds(), transition)
	began := n.at.Add(-transition - time.Second)
	want := []Incident{{
		ID: "memory.available-20260102T030405.000Z", Signal: pressure.MemoryAvailable, Began: began, HardSince: began, Short: began.Add(time.Second), Lowest: 40,
		Victims: []Victim{{Pod: "shop/a", UID: "a"}},
	}}
	if diff := cmp.Diff(want, ended); diff != "" || tracker.Any() {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, _ := tracker.Observe(n.after(time.Second, reading{pressure.MemoryAvailable: 90}), thresholds(), transition)
	if len(again) != 1 || again[0].ID == want[0].ID {
		t.Errorf("the next shortage: %+v, want an incident of its own", again)
	}
}

// A resource is bytes or inodes of one device: two signals about one device are one incident. It is theirs too
// while they cannot be read, and after a restart that of the signal that was short first.
func TestIncidentIsOfOneDevice(t *testing.T) {
	t.Parallel()
	disks := reading{pressure.NodeFSAvailable: 50, pressure.ImageFSAvailable: 50, pressure.NodeFSInodesFree: 50}
	for _, test := range []struct {
		name        string
		node, image uint64
		want        int
	}{
		{"one device", 7, 7, 2},
		{"two devices", 7, 8, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n, tracker := newNode(), calm()
			n.device[pressure.NodeFSAvailable], n.device[pressure.NodeFSInodesFree], n.device[pressure.ImageFSAvailable] = test.node, test.node, test.image
			if began, _ := tracker.Observe(n.after(0, disks), thresholds(), transition); len(began) != test.want {
				t.Errorf("%d incidents, want %d: %+v", len(began), test.want, began)
			}
			restarted := calm()
			restarted.Restore(tracker.Open(), n.at)
			node, image := idOf(tracker, pressure.NodeFSAvailable, test.node), idOf(tracker, pressure.ImageFSAvailable, test.image)
			for _, of := range []*Tracker{tracker, restarted} {
				began, ended := of.Observe(n.after(time.Hour, reading{pressure.NodeFSAvailable: unknown, pressure.ImageFSAvailable: unknown}), thresholds(), transition)
				if unread := idOf(of, pressure.NodeFSAvailable, 0); unread != node || len(began) > 0 || len(ended) > 1 {
					t.Errorf("unread it is of incident %q, want %q; began %+v, ended %+v", unread, node, began, ended)
				}
				if unread := idOf(of, pressure.ImageFSAvailable, 0); of == tracker && unread != image {
					t.Errorf("unread it is of incident %q, want %q", unread, image)
				}
			}
		})
	}
}

func TestIncidentsOfThresholdsThatWentEnd(t *testing.T) {
	t.Parallel()
	n, tracker := newNode(), calm()
	low := reading{pressure.MemoryAvailable: 90}
	tracker.Observe(n.after(0, low), thresholds(), transition)
	_, ended := tracker.Observe(n.after(transition, low), nil, transition)
	if len(ended) != 1 {
		t.Errorf("ended: %+v", ended)
	}
}

func TestRestoredIncidentGoesOn(t *testing.T) {
	t.Parallel()
	n, before := newNode(), calm()
	low := reading{pressure.MemoryAvailable: 90}
	before.Observe(n.after(0, low), thresholds(), transition)
	restarted := calm()
	restarted.Restore(before.Open(), n.at)
	if began, _ := restarted.Observe(n.after(time.Minute, low), thresholds(), transition); len(began) > 0 {
		t.Errorf("began anew: %+v", began)
	}
	if diff := cmp.Diff(idOf(before, pressure.MemoryAvailable, 0), idOf(restarted, pressure.MemoryAvailable, 0)); diff != "" {
		t.Error(diff)
	}
}

// Whatever the readings, there is at most one open incident for a resource, none without a
// shortage within the transition period, and its name never changes.
func TestIncidentProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		n, tracker, short := newNode(), calm(), time.Time{}
		for range 300 {
			available := random.Int64N(400)
			sample := n.after(time.Duration(random.IntN(120))*time.Second, reading{pressure.MemoryAvailable: available})
			was := idOf(tracker, pressure.MemoryAvailable, 0)
			if available < 200 || was != "" && available < 220 {
				short = sample.Time
			}
			tracker.Observe(sample, thresholds()[:2], transition)
			id, open := idOf(tracker, pressure.MemoryAvailable, 0), tracker.Open()
			if want := !short.IsZero() && (sample.Time.Equal(short) || sample.Time.Sub(short) < transition); want != (id != "") {
				t.Fatalf("seed %d: open is %v %v after the last shortage", seed, id != "", sample.Time.Sub(short))
			}
			if len(open) > 1 || was != "" && id != "" && was != id {
				t.Fatalf("seed %d: open %+v, before %s", seed, open, was)
			}
		}
	}
}
