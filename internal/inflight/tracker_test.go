package inflight_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

func at(offset time.Duration) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(offset)
}

func victim(uid string, memory int64) decide.Victim {
	return decide.Victim{
		Namespace: "shop", Name: uid, UID: uid, Expected: pressure.Amounts{}.With(pressure.MemoryAvailable, memory),
		Accepted: at(0), Deadline: at(45 * time.Second),
	}
}

func never(string) bool  { return false }
func always(string) bool { return true }

// covers reports whether what is relied on should free at least the deficit of the signal.
func covers(ledger *inflight.Tracker, signal pressure.Signal, deficit int64, now time.Time, patience time.Duration) bool {
	expected, relied := decide.Relied(ledger.All(), signal, now, patience)
	return relied && expected >= deficit
}

func TestLedgerCovers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		bookings []decide.Victim
		deficit  int64
		at       time.Duration
		want     bool
	}{
		{"an empty ledger covers nothing, not even no deficit", nil, 0, 0, false},
		{"one that suffices", []decide.Victim{victim("a", 100)}, 100, 0, true},
		{"one that does not", []decide.Victim{victim("a", 99)}, 100, 0, false},
		{"two together", []decide.Victim{victim("a", 60), victim("b", 40)}, 100, 0, true},
		{"a victim past its deadline is not relied on", []decide.Victim{victim("a", 100)}, 100, 46 * time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ledger := inflight.New()
			for _, b := range test.bookings {
				ledger.Book(b)
			}
			if got := covers(ledger, pressure.MemoryAvailable, test.deficit, at(test.at), 0); got != test.want {
				t.Errorf("covers = %v, want %v", got, test.want)
			}
			if covers(ledger, pressure.NodeFSAvailable, 1, at(test.at), 0) {
				t.Error("memory covers a disk deficit")
			}
		})
	}
}

func TestLedgerEndsBookings(t *testing.T) {
	t.Parallel()
	ledger, own := inflight.New(), victim("a", 100)
	own.Signal = "memory.available"
	ledger.Book(own)
	if ended := ledger.Observe(at(time.Second), always); len(ended) != 0 || !ledger.Booked("a") {
		t.Errorf("a pod that is present has ended: %v", ended)
	}
	if ended := ledger.Observe(at(time.Hour), always); len(ended) != 0 {
		t.Errorf("a stuck pod has ended: %v", ended)
	}
	if ended := ledger.Observe(at(2*time.Hour), never); len(ended) != 1 || ledger.Booked("a") {
		t.Errorf("a pod that has gone is still booked: %v", ended)
	}
	if !ledger.LastEnd().Equal(at(2 * time.Hour)) {
		t.Errorf("last end %v", ledger.LastEnd())
	}
}

func TestLedgerEndsADryRunAtItsDeadlineOrWithItsPod(t *testing.T) {
	t.Parallel()
	b := victim("a", 100)
	b.DryRun = true
	ledger := inflight.New()
	ledger.Book(b)
	if ended := ledger.Observe(at(45*time.Second), always); len(ended) != 0 {
		t.Errorf("ended before its deadline: %v", ended)
	}
	if ended := ledger.Observe(at(46*time.Second), always); len(ended) != 1 {
		t.Errorf("ended = %v, want the dry run's booking", ended)
	}
	ledger.Book(b)
	if ended := ledger.Observe(at(time.Second), never); len(ended) != 1 {
		t.Errorf("ended = %v, want the booking of the pod that has gone", ended)
	}
}

// TestLedgerFollowsTheNewestMeasurement: a victim that has freed most of what it
// had is not relied on for it once more.
func TestLedgerFollowsTheNewestMeasurement(t *testing.T) {
	t.Parallel()
	ledger := inflight.New()
	ledger.Book(victim("a", 100))
	ledger.Expect("absent", pressure.Amounts{}.With(pressure.MemoryAvailable, 1000))
	ledger.Book(decide.Victim{UID: "a", Expected: pressure.Amounts{}.With(pressure.NodeFSAvailable, 500)})
	if !covers(ledger, pressure.MemoryAvailable, 100, at(0), 0) || !covers(ledger, pressure.NodeFSAvailable, 500, at(0), 0) {
		t.Errorf("in flight: %+v, want the first figure of memory and the new one of the disk", ledger.All())
	}
	ledger.Expect("a", pressure.Amounts{}.With(pressure.MemoryAvailable, 30))
	if covers(ledger, pressure.MemoryAvailable, 31, at(0), 0) || !covers(ledger, pressure.MemoryAvailable, 30, at(0), 0) {
		t.Errorf("in flight: %+v, want the newest figure of memory", ledger.All())
	}
	if !covers(ledger, pressure.NodeFSAvailable, 500, at(0), 0) {
		t.Error("a measurement of memory made the disk's figure forgotten")
	}
}

func TestLedgerLosesPatience(t *testing.T) {
	t.Parallel()
	patient := victim("a", 100)
	patient.Deadline, patient.Signal = at(time.Hour), "memory.available"
	ledger := inflight.New()
	ledger.Book(patient)
	if !covers(ledger, pressure.MemoryAvailable, 100, at(time.Minute), time.Minute) {
		t.Error("not relied on although the patience has not run out")
	}
	if covers(ledger, pressure.MemoryAvailable, 100, at(time.Minute+1), time.Minute) {
		t.Error("relied on although the patience has run out")
	}
	if !covers(ledger, pressure.MemoryAvailable, 100, at(30*time.Minute), 0) {
		t.Error("not relied on before its deadline, although there is no other limit")
	}
}

func TestLedgerReplacesADryRunByTheRealThing(t *testing.T) {
	t.Parallel()
	dry := victim("a", 100)
	dry.DryRun = true
	ledger := inflight.New()
	ledger.Book(dry)
	ledger.Book(victim("a", 100))
	ledger.Book(dry)
	if got := ledger.All(); len(got) != 1 || got[0].DryRun {
		t.Errorf("in flight: %+v, want the real booking alone", got)
	}
}

func TestLedgerForgetsDryRunsAndNothingElse(t *testing.T) {
	t.Parallel()
	dry := victim("dry", 100)
	dry.DryRun = true
	ledger := inflight.New()
	ledger.Book(dry)
	ledger.Book(victim("wet", 100))
	ledger.ForgetDryRuns()
	if ledger.Booked("dry") || !ledger.Booked("wet") {
		t.Errorf("in flight: %+v, want the real one alone", ledger.All())
	}
}

func TestLedgerKeepsTheFirstBooking(t *testing.T) {
	t.Parallel()
	ledger := inflight.New()
	ledger.Book(victim("a", 100))
	later := victim("a", 500)
	later.Deadline = at(time.Hour)
	ledger.Book(later)
	if got := ledger.All(); len(got) != 1 || !got[0].Deadline.Equal(at(45*time.Second)) {
		t.Errorf("in flight: %+v, want the first booking alone", got)
	}
}

func TestReliedOn(t *testing.T) {
	t.Parallel()
	b := decide.Victim{Signal: "memory.available", Accepted: at(0), Deadline: at(time.Hour)}
	short := b
	short.Deadline = at(10 * time.Second)
	again := short
	again.Escalated, again.Deadline = at(2*time.Minute), at(3*time.Minute)
	for _, test := range []struct {
		name    string
		booking decide.Victim
		at      time.Duration
		want    bool
	}{
		{"within patience and deadline", b, time.Minute, true},
		{"over patience", b, time.Minute + 1, false},
		{"over its deadline", short, 11 * time.Second, false},
		{"evicted again", again, 3 * time.Minute, true},
		{"evicted again, and over that deadline", again, 3*time.Minute + 1, false},
	} {
		if got := test.booking.ReliedOn(at(test.at), time.Minute); got != test.want {
			t.Errorf("%s: relied on %v, want %v", test.name, got, test.want)
		}
	}
	if !b.ReliedOn(at(time.Hour), 0) {
		t.Error("without patience a victim is relied on to its deadline")
	}
}

// TestLedgerEscalates: the request to shorten a victim's grace period is repeated until there is a
// response, and sent no more than three times without one.
func TestLedgerEscalates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcome   evict.Outcome
		requests  int
		escalated bool
	}{
		{evict.Evicted, 1, true},
		{evict.WouldEvict, 1, true},
		{evict.BlockedByBudget, 1, false},
		{evict.Gone, 1, false},
		{evict.Unconfirmed, 3, false},
		{evict.Throttled, 3, false},
	} {
		ledger, sent := inflight.New(), 0
		own := victim("a", 100)
		own.Signal = "memory.available"
		ledger.Book(own)
		for b := own; b.MayEscalate(); b = ledger.All()[0] {
			for _, uid := range []string{"a", "absent"} {
				ledger.Escalate(uid, test.outcome, 7, at(time.Hour), at(time.Minute))
			}
			sent++
		}
		got := ledger.All()
		if sent != test.requests || len(got) != 1 || got[0].ReliedOn(at(time.Hour), time.Hour) != test.escalated || (got[0].GraceSeconds == 7) != test.escalated {
			t.Errorf("%s: %d requests, then %+v; want %d, and relied on again %v", test.outcome, sent, got, test.requests, test.escalated)
		}
	}
	if other := victim("a", 100); other.MayEscalate() {
		t.Error("a pod that others end may be escalated")
	}
}
