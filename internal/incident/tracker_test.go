package incident

import (
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

// One shortage is one incident, whatever disturbs it, and so it is for a process that is restarted after each sample.
func TestIncidentGoesOn(t *testing.T) {
	t.Parallel()
	low, unread := reading{pressure.MemoryAvailable: 90}, reading{pressure.MemoryAvailable: unknown}
	margin := reading{pressure.MemoryAvailable: 210}
	type step struct {
		after    time.Duration
		readings reading
	}
	for name, steps := range map[string][]step{
		"across a reading at the line":                 {{0, low}, {1, reading{pressure.MemoryAvailable: 200}}, {1, low}},
		"across the hard threshold after the soft one": {{0, reading{pressure.MemoryAvailable: 150}}, {1, low}},
		"across two unknown readings":                  {{0, low}, {1, unread}, {time.Hour, unread}, {1, low}},
		"while the reclaim is missing":                 {{0, low}, {time.Hour, margin}, {time.Hour, margin}, {1, low}},
		"within the transition period":                 {{0, low}, {transition - 1, nil}, {1, low}},
		"for another signal of the same resource":      {{0, low}, {1, reading{pressure.AllocatableMemoryAvailable: 10}}},
	} {
		for _, restarts := range []bool{false, true} {
			n, tracker, ids := newNode(), calm(), map[string]bool{}
			for _, s := range steps {
				_, ended := tracker.Observe(n.after(s.after, s.readings), thresholds(), transition)
				if len(ended) > 0 {
					t.Errorf("%s, restarts %t: ended: %+v", name, restarts, ended)
				}
				if open := tracker.Open(); restarts {
					tracker = calm()
					tracker.Restore(open, n.at)
				}
				ids[idOf(tracker, pressure.MemoryAvailable, 0)] = true
			}
			if len(ids) != 1 || !tracker.Any() {
				t.Errorf("%s, restarts %t: incidents %v, want one that is open", name, restarts, ids)
			}
		}
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
	if atTheLine, _ := tracker.Observe(n.after(0, reading{pressure.MemoryAvailable: 200}), thresholds(), transition); len(atTheLine) > 0 {
		t.Errorf("began at the line: %+v", atTheLine)
	}
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
	if _, ended = tracker.Observe(n.after(transition, reading{pressure.MemoryAvailable: 90}), nil, transition); len(ended) != 1 {
		t.Errorf("without its threshold: ended: %+v", ended)
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
