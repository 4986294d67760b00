package inflight

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// about returns a request for a pod, sent at the offset, that may still be carried out.
func about(uid string, signal pressure.Signal, device uint64, sent time.Duration) *decide.InDoubt {
	seconds := int64(7)
	return &decide.InDoubt{
		Attempt: decide.Attempt{
			Entry: rank.Entry{Pod: &rank.Pod{
				Namespace: "shop", Name: uid, UID: uid, OwnerUID: "owner", Usage: 9, Request: 4, GraceSeconds: 30, Sampled: true,
			}, Resource: decide.RankedBy(signal), Over: 5, Exceeds: true},
			GraceSeconds: &seconds,
			Result:       evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Sent: at(sent)},
		},
		Expected: pressure.Amounts{}.With(signal, 9), Incident: "incident",
		Pressure: pressure.Pressure{
			Threshold: pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(3), Hard: true},
			Observed:  pressure.Observation{State: pressure.Known, Available: 2, Capacity: 100, Device: device},
			Line:      3, Target: 4, Since: at(sent), SampleTime: at(sent),
		},
		First: at(sent),
	}
}

// learn lets a tracker learn that a request is in doubt.
func learn(t *Tracker, open *decide.InDoubt) {
	attempts := []decide.Attempt{open.Attempt}
	t.Learn(&decide.Report{Decision: decide.Decision{Pressure: open.Pressure, Attempts: attempts}, InDoubt: open}, open.First)
}

// inDoubt names the pods whose requests are in doubt.
func inDoubt(t *Tracker) []string {
	var uids []string
	for _, v := range t.Export().Victims {
		if v.Phase == decide.Requested {
			uids = append(uids, v.UID)
		}
	}
	slices.Sort(uids)
	return uids
}

func memoryOfNode() decide.Resource { return decide.Resource{Kind: pressure.MemoryKind} }

// There is one request for a resource at most: a disk's bytes and inodes are two, memory and its stall are one. A
// decision sees those for other resources while they may be evictd's.
func TestOneRequestForAResource(t *testing.T) {
	t.Parallel()
	tracker := on(&node{})
	for _, open := range []*decide.InDoubt{
		about("bytes", pressure.NodeFSAvailable, 7, 0), about("inodes", pressure.NodeFSInodesFree, 7, 0),
		about("images", pressure.ImageFSAvailable, 8, 0), about("first", pressure.MemoryAvailable, 0, 0),
		about("stall", pressure.MemoryStall, 0, 0),
	} {
		learn(tracker, open)
	}
	if all := strings.Join(inDoubt(tracker), " "); all != "bytes images inodes stall" {
		t.Errorf("in doubt: %q", all)
	}
	for now, wanted := range map[time.Duration]string{time.Second: "stall; bytes inodes images", time.Hour: "stall;"} {
		own, others := tracker.doubts(memoryOfNode(), at(now))
		got := own.UID() + ";"
		for i := range others {
			got += " " + others[i].UID()
		}
		if got != wanted {
			t.Errorf("after %v memory and others are held by %q, want %q", now, got, wanted)
		}
	}
}

// The outcome of a plan resolves the request in doubt, keeps it in doubt or replaces it by another.
func TestReportAboutARequestInDoubt(t *testing.T) {
	t.Parallel()
	sent := []decide.Attempt{{Entry: rank.Entry{Pod: &rank.Pod{UID: "other"}}}}
	escalated := []decide.Attempt{{Entry: rank.Entry{Pod: &rank.Pod{UID: "other"}}, Escalates: true}}
	again, other := about("a", pressure.MemoryAvailable, 0, 10*time.Second), about("b", pressure.MemoryAvailable, 0, 10*time.Second)
	for _, test := range []struct {
		name     string
		attempts []decide.Attempt
		report   decide.Report
		now      time.Duration
		want     string
		first    time.Duration
		rests    bool
	}{
		{"nothing was sent, and it may still be carried out", nil, decide.Report{}, 10 * time.Second, "a", 0, false},
		{"a victim was escalated", escalated, decide.Report{}, 10 * time.Second, "a", 0, false},
		{"a second request was refused", sent, decide.Report{}, 10 * time.Second, "a", 0, false},
		{"it cannot come any more", nil, decide.Report{}, evict.RequestTimeout, "", 0, false},
		{"the same pod again", sent, decide.Report{InDoubt: again}, 10 * time.Second, "a", 0, false},
		{"the same pod, which was read and stays", nil, decide.Report{InDoubt: again}, 10 * time.Second, "a", 0, true},
		{"the same pod, which could not be read", nil, decide.Report{InDoubt: again, Unread: true}, 10 * time.Second, "a", 0, false},
		{"another pod", sent, decide.Report{InDoubt: other}, 10 * time.Second, "b", 10 * time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tracker, open := on(&node{}), about("a", pressure.MemoryAvailable, 0, 0)
			learn(tracker, open)
			test.report.Decision = decide.Decision{Pressure: open.Pressure, Attempts: test.attempts}
			tracker.Learn(&test.report, at(test.now))
			tracker.Accept(victim("absent", 1))
			own, _ := tracker.doubts(memoryOfNode(), at(test.now))
			if all := strings.Join(inDoubt(tracker), " "); all != test.want || own != nil && !own.First.Equal(at(test.first)) {
				t.Errorf("in doubt: %q, %+v, want %q since %v", all, own, test.want, test.first)
			}
			if own != nil && (own.Rests.IsZero() == test.rests || test.rests && !own.Rests.Equal(at(test.now+time.Second))) {
				t.Errorf("its pod is not read until %v", own.Rests)
			}
			tracker.Accept(victim(test.want, 1)) // and once it terminates there is no doubt about it
			if left := inDoubt(tracker); len(left) > 0 {
				t.Errorf("in doubt although it terminates: %q", left)
			}
		})
	}
}

// A restart keeps what is in doubt as it was. Where the API server has given up a request since, a victim may be
// in flight of which nothing is known, and a second restart knows of that. What has expired counts not at all.
func TestRestoredRequestsSayTheSame(t *testing.T) {
	t.Parallel()
	before := on(&node{})
	first := about("a", pressure.NodeFSAvailable, 7, 0)
	first.Attempt.Bypassed, first.Attempt.Result.Stays = &evict.Budget{Name: "budget"}, true
	learn(before, first)
	learn(before, about("b", pressure.MemoryAvailable, 0, 5*time.Second))
	for _, test := range []struct {
		now     time.Duration
		want    []string
		givenUp int
	}{
		{10 * time.Second, []string{"a", "b"}, 0},
		{decide.DoubtLasts + 1, []string{"b"}, 1},
		{90 * time.Second, nil, 2},
		{30 * time.Minute, nil, 2},
		{time.Hour, nil, 1},
		{2 * time.Hour, nil, 0},
	} {
		after, givenUp := restarted(t, before, at(test.now))
		after.Observe(&pressure.Sample{Time: at(test.now)}, false)
		if diff := cmp.Diff(test.want, inDoubt(after)); diff != "" || len(givenUp) != test.givenUp {
			t.Errorf("after %v %d were given up, and in doubt are (-want +got):\n%s", test.now, len(givenUp), diff)
		}
		again, _ := restarted(t, after, at(test.now+time.Second))
		if since := again.unknown; since.Equal(at(test.now)) != (test.givenUp > 0) {
			t.Errorf("after %v a victim may be in flight since %v", test.now, since)
		}
	}
	same, _ := restarted(t, before, at(10*time.Second))
	own, others := before.doubts(decide.ResourceOf(&first.Pressure), at(10*time.Second))
	again, againOthers := same.doubts(decide.ResourceOf(&first.Pressure), at(10*time.Second))
	everything := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(own, again, everything); diff != "" {
		t.Errorf("own (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(others, againOthers, everything); diff != "" {
		t.Errorf("others (-before +after):\n%s", diff)
	}
}
