package indoubt_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/indoubt"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func at(offset time.Duration) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(offset)
}

// fields compares structs of other packages by all their fields.
func fields() cmp.Option { return cmp.Exporter(func(reflect.Type) bool { return true }) }

func never(string) bool  { return false }
func always(string) bool { return true }

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
		Expected: pressure.Amounts{}.With(signal, 9),
		Asked: decide.Decision{Time: at(sent), Incident: "incident", Pressure: pressure.Pressure{
			Threshold: pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(3), Hard: true},
			Observed:  pressure.Observation{State: pressure.Known, Available: 2, Capacity: 100, Device: device},
			Line:      3, Target: 4, Since: at(sent), SampleTime: at(sent),
		}},
		First: at(sent),
	}
}

// put makes a request the one that is in doubt about its resource.
func put(t *indoubt.Tracker, open *decide.InDoubt) {
	t.Observe(&indoubt.Report{Decision: &open.Asked, InDoubt: open}, open.First)
}

func uids(t *indoubt.Tracker) []string {
	var uids []string
	for _, r := range t.Export() {
		uids = append(uids, r.UID)
	}
	return uids
}

// There is one request for a resource at most, and a decision about it sees the others only while
// their pods may be terminating because of them.
func TestOneRequestForAResource(t *testing.T) {
	t.Parallel()
	var tracker indoubt.Tracker
	memory, now := decide.Resource{Kind: pressure.MemoryKind}, at(time.Second)
	own, others := tracker.For(memory, now, never)
	if own != nil || others != nil || tracker.About("a") {
		t.Error("the zero value has one")
	}
	for _, open := range []*decide.InDoubt{
		about("a", pressure.NodeFSAvailable, 7, 0), about("b", pressure.MemoryAvailable, 0, 0), about("c", pressure.NodeFSInodesFree, 7, 0),
		about("d", pressure.ImageFSAvailable, 8, 0), about("e", pressure.MemoryStall, 0, 0), // memory, as b
	} {
		put(&tracker, open)
	}
	if diff := cmp.Diff([]string{"a", "c", "d", "e"}, uids(&tracker)); diff != "" {
		t.Errorf("in doubt (-want +got):\n%s", diff)
	}
	if own, others = tracker.For(memory, now, never); own.UID() != "e" || len(others) != 3 || tracker.About("b") || !tracker.About("c") {
		t.Errorf("of memory %+v, of others %+v", own, others)
	}
	before := tracker.Export()
	if own, others = tracker.For(memory, now, always); own != nil || others != nil {
		t.Errorf("of memory %+v, of others %+v, and all of them are in flight", own, others)
	}
	now = at(time.Hour)
	if _, others = tracker.For(memory, now, never); others != nil {
		t.Errorf("given up by the API server, and still %+v", others)
	}
	if diff := cmp.Diff(before, tracker.Export(), fields()); diff != "" {
		t.Errorf("reading changed it (-want +got):\n%s", diff)
	}
	tracker.Forget(func(uid string) bool { return uid == "c" || uid == "a" })
	if diff := cmp.Diff([]string{"d", "e"}, uids(&tracker)); diff != "" {
		t.Errorf("in doubt after two were resolved (-want +got):\n%s", diff)
	}
}

// TestReportAboutARequestInDoubt: the outcome of a plan resolves the request in doubt, keeps it in
// doubt or replaces it by another.
func TestReportAboutARequestInDoubt(t *testing.T) {
	t.Parallel()
	sent := []decide.Attempt{{Entry: rank.Entry{Pod: &rank.Pod{UID: "other"}}}}
	escalated := []decide.Attempt{{Entry: rank.Entry{Pod: &rank.Pod{UID: "other"}}, Escalates: true}}
	again, other := about("a", pressure.MemoryAvailable, 0, 10*time.Second), about("b", pressure.MemoryAvailable, 0, 10*time.Second)
	for _, test := range []struct {
		name     string
		attempts []decide.Attempt
		inDoubt  *decide.InDoubt
		now      time.Duration
		stays    bool
		want     string
		first    time.Duration
		waits    bool
	}{
		{"nothing was sent, and it may still be carried out", nil, nil, 10 * time.Second, false, "a", 0, false},
		{"a victim was escalated", escalated, nil, 10 * time.Second, false, "a", 0, false},
		{"a second request was refused", sent, nil, 10 * time.Second, false, "a", 0, false},
		{"it cannot come any more", nil, nil, evict.RequestTimeout, false, "", 0, false},
		{"the same pod again", sent, again, 10 * time.Second, false, "a", 0, false},
		{"the same pod, which was read and stays", nil, again, 10 * time.Second, true, "a", 0, true},
		{"another pod", sent, other, 10 * time.Second, false, "b", 10 * time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var tracker indoubt.Tracker
			open := about("a", pressure.MemoryAvailable, 0, 0)
			put(&tracker, open)
			done := open.Asked
			done.Attempts = test.attempts
			tracker.Observe(&indoubt.Report{Decision: &done, InDoubt: test.inDoubt, Stays: test.stays}, at(test.now))
			own, rests := tracker.Of(decide.Resource{Kind: pressure.MemoryKind})
			if own == nil != (test.want == "") || own != nil && (own.UID() != test.want || !own.First.Equal(at(test.first))) {
				t.Errorf("in doubt: %+v, want %q since %v", own, test.want, test.first)
			}
			if rests.IsZero() == test.waits || test.waits && !rests.Equal(at(test.now+time.Second)) {
				t.Errorf("its pod is not read until %v", rests)
			}
		})
	}
}

// TestWatchResolvesRequestsInDoubt: the watch resolves a request whose pod ends while the request
// may be the cause; later another cause is assumed.
func TestWatchResolvesRequestsInDoubt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		now    time.Duration
		stays  bool
		ended  int
		remain int
	}{{time.Second, true, 0, 1}, {time.Second, false, 1, 1}, {decide.DoubtLasts, false, 1, 1}, {decide.DoubtLasts + 1, false, 0, 0}, {time.Hour, true, 0, 1}} {
		var tracker indoubt.Tracker
		put(&tracker, about("a", pressure.MemoryAvailable, 0, 0))
		ended := tracker.Reconcile(at(test.now), func(string) bool { return test.stays }, never)
		if len(ended) != test.ended || len(tracker.Export()) != test.remain {
			t.Errorf("%+v: ended %v, in doubt %v", test, ended, uids(&tracker))
		}
		if len(tracker.Reconcile(at(test.now), never, always)) != 0 || tracker.Export() == nil || tracker.About("a") {
			t.Errorf("%+v: its pod is in flight, and it is in doubt", test)
		}
	}
}

// A restart keeps what is in doubt as it was. What the API server has given up since counts as if it
// was carried out, and what has expired not at all.
func TestRestoredRequestsSayTheSame(t *testing.T) {
	t.Parallel()
	var before indoubt.Tracker
	first := about("a", pressure.NodeFSAvailable, 7, 0)
	first.Attempt.Bypassed, first.Attempt.Result.Stays = &evict.Budget{Name: "budget"}, true
	put(&before, first)
	put(&before, about("b", pressure.MemoryAvailable, 0, 5*time.Second))
	kept := before.Export()
	for _, test := range []struct {
		now      time.Duration
		inDoubt  []state.Request
		presumed int
	}{{10 * time.Second, kept, 0}, {decide.DoubtLasts + 1, kept[1:], 1}, {30 * time.Minute, []state.Request{}, 2}, {time.Hour, []state.Request{}, 1}, {2 * time.Hour, []state.Request{}, 0}} {
		var after indoubt.Tracker
		presumed := after.Restore(kept, at(test.now))
		if diff := cmp.Diff(test.inDoubt, after.Export(), fields()); diff != "" || len(presumed) != test.presumed {
			t.Errorf("after %v, %+v are presumed and in doubt are (-want +got):\n%s", test.now, presumed, diff)
		}
		for _, p := range presumed {
			if end := p.Sent.Add(22 * time.Second); p.OwnerUID != "owner" || p.Gone.At.After(at(test.now)) || p.Gone.At.After(end) {
				t.Errorf("after %v: presumed %+v, want one that ended when it should have", test.now, p)
			}
		}
	}
	var same indoubt.Tracker
	same.Restore(kept, at(10*time.Second))
	own, others := before.For(first.Asked.Resource(), at(10*time.Second), never)
	again, againOthers := same.For(first.Asked.Resource(), at(10*time.Second), never)
	if diff := cmp.Diff(own, again, fields()); diff != "" {
		t.Errorf("own (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(others, againOthers, fields()); diff != "" {
		t.Errorf("others (-before +after):\n%s", diff)
	}
}
