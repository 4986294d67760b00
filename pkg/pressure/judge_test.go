package pressure

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// moment returns a fixed time plus an offset.
func moment(offset time.Duration) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(offset)
}

// memoryAt returns a sample with that much of 1000 available.
func memoryAt(offset time.Duration, available int64) *Sample {
	s := &Sample{Time: moment(offset)}
	for i := range s.Observations {
		s.Observations[i].State = Absent
	}
	s.Observations[MemoryAvailable] = Observation{State: Known, Available: available, Capacity: 1000}
	return s
}

func memoryUnknownAt(offset time.Duration) *Sample {
	s := memoryAt(offset, 0)
	s.Observations[MemoryAvailable] = Observation{Err: errors.New("planted")}
	return s
}

func hardMemory(line int64) Threshold {
	return Threshold{Signal: MemoryAvailable, Quantity: Absolute(line), Hard: true}
}

func softMemory(line int64, grace time.Duration) Threshold {
	return Threshold{Signal: MemoryAvailable, Quantity: Absolute(line), Grace: grace}
}

// said is what a verdict says, without the figures: "hard" and "soft" hold, "(soft)" waits.
func said(v Verdict) string {
	var words []string
	word := func(hard bool) string { return map[bool]string{true: "hard", false: "soft"}[hard] }
	for _, p := range v.Pressures {
		words = append(words, word(p.Threshold.Hard))
	}
	for _, p := range v.Waiting {
		words = append(words, "("+word(p.Threshold.Hard)+")")
	}
	for _, s := range v.Unknown {
		words = append(words, s.String()+"?")
	}
	if v.Stale {
		words = append(words, "stale")
	}
	return strings.Join(words, " ")
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const unknown, unread, gone = -1, "memory.available?", -2
	soft, reclaiming := softMemory(200, 10*time.Second), hardMemory(100)
	reclaiming.MinReclaim = Fraction(0.05)
	type step struct {
		at        float64 // seconds
		available int64
		want      string
	}
	for name, test := range map[string]struct {
		thresholds []Threshold
		steps      []step
	}{
		"a threshold is met strictly below its line": {[]Threshold{hardMemory(100)}, []step{{0, 100, ""}, {1, 99, "hard"}, {2, 100, ""}}},
		"a soft threshold waits for its grace period and a break starts it anew": {
			[]Threshold{soft}, []step{{0, 150, "(soft)"}, {9, 150, "(soft)"}, {9.5, 250, ""}, {11, 150, "(soft)"}, {21, 150, "soft"}},
		},
		"a soft timer survives one missing sample and not two": {
			[]Threshold{soft}, []step{{0, 150, "(soft)"}, {3, unknown, unread}, {4, 150, "(soft)"}, {5, unknown, unread}, {10, 150, "soft"}, {11, unknown, unread}, {12, unknown, unread}, {13, 150, "(soft)"}},
		},
		"minimum reclaim keeps a threshold that held, and only that": {
			[]Threshold{reclaiming}, []step{{0, 120, ""}, {1, 90, "hard"}, {2, 149, "hard"}, {3, 150, ""}, {4, 120, ""}},
		},
		"hard comes before soft": {[]Threshold{soft, hardMemory(100)}, []step{{0, 50, "hard (soft)"}, {10, 50, "hard soft"}}},
		"a sample that is not newer is stale": {
			[]Threshold{hardMemory(100)}, []step{{1, 500, ""}, {1, 50, "stale"}, {0, 50, "stale"}, {2, 50, "hard"}},
		},
		"a signal that is absent is neither unknown nor pressure, and ends both": {
			[]Threshold{soft, reclaiming}, []step{{0, 90, "hard (soft)"}, {1, gone, ""}, {10, 120, "(soft)"}},
		},
	} {
		judge := NewJudge(test.thresholds, 0)
		for _, step := range test.steps {
			at := time.Duration(step.at * float64(time.Second))
			sample := memoryAt(at, step.available)
			if step.available == unknown {
				sample = memoryUnknownAt(at)
			}
			if step.available == gone {
				sample.Observations[MemoryAvailable] = Observation{State: Absent}
			}
			if got := said(judge.Judge(sample)); got != step.want {
				t.Errorf("%s: after %v: %q, want %q", name, at, got, step.want)
			}
		}
	}
}

// Guards invariant 1: unknown is never zero and never pressure.
func TestInvariant01UnknownIsNeverPressure(t *testing.T) {
	t.Parallel()
	thresholds := make([]Threshold, 0, SignalCount)
	for _, s := range Signals() {
		thresholds = append(thresholds, Threshold{Signal: s, Quantity: Absolute(1 << 40), Hard: true})
	}
	judge := NewJudge(thresholds, time.Minute)
	var nothingFilledIn Sample
	nothingFilledIn.Time = moment(0)
	verdict := judge.Judge(&nothingFilledIn)
	if len(verdict.Pressures) != 0 || len(verdict.Waiting) != 0 {
		t.Errorf("an empty sample is pressure: %+v", verdict)
	}
	if len(verdict.Unknown) != len(Signals()) {
		t.Errorf("unknown = %v, want all signals", verdict.Unknown)
	}
	for _, s := range Signals() {
		p := Pressure{Threshold: Threshold{Signal: s}, Target: 1 << 40}
		if p.MetIn(&nothingFilledIn) {
			t.Errorf("%v: a second look that read nothing confirms the pressure", s)
		}
	}
}

// A signal is under pressure until the transition period after its threshold was last met, and held from the end of the
// grace period.
func TestHeldBeginsWhenTheGracePeriodIsOver(t *testing.T) {
	t.Parallel()
	judge := NewJudge([]Threshold{{Signal: MemoryAvailable, Quantity: Absolute(100), Grace: 10 * time.Second}}, time.Minute)
	for _, step := range []struct {
		at, available int64
		under, held   bool
	}{
		{0, 500, false, false},
		{1, 50, true, false},
		{5, 500, true, false}, // too short
		{20, 50, true, false},
		{29, 50, true, false},
		{30, 50, true, true},
		{31, 500, true, true},
		{85, 50, true, true},
		{90, 50, true, false},
		{91, 500, true, false},
		{149, 500, true, false},
		{150, 500, false, false},
	} {
		verdict := judge.Judge(memoryAt(time.Duration(step.at)*time.Second, step.available))
		if under, held := verdict.Under[MemoryAvailable], verdict.Held[MemoryAvailable]; under != step.under || held != step.held {
			t.Errorf("after %d s: under %v, held %v, want %v and %v", step.at, under, held, step.under, step.held)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	judge := NewJudge([]Threshold{softMemory(200, time.Second), hardMemory(100)}, time.Minute)
	sample := memoryAt(0, 150)
	b.ReportAllocs()
	for b.Loop() {
		sample.Time = sample.Time.Add(time.Millisecond)
		judge.Judge(sample)
	}
}
