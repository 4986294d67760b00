package pressure

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// state is what a verdict says, without the figures.
type state struct {
	Holding, Waiting []string
	Unknown          []Signal
	Stale            bool
}

func stateOf(v Verdict) state {
	s := state{Stale: v.Stale, Unknown: append([]Signal(nil), v.Unknown...)}
	for _, p := range v.Pressures {
		s.Holding = append(s.Holding, p.Threshold.String())
	}
	for _, p := range v.Waiting {
		s.Waiting = append(s.Waiting, p.Threshold.String())
	}
	return s
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const soft, hard = "memory.available<200 (soft)", "memory.available<100 (hard)"
	type step struct {
		sample *Sample
		want   state
	}
	tests := []struct {
		name       string
		thresholds []Threshold
		steps      []step
	}{
		{
			name:       "a threshold is met strictly below its line",
			thresholds: []Threshold{hardMemory(100)},
			steps: []step{
				{memoryAt(0, 100), state{}},
				{memoryAt(1*time.Second, 99), state{Holding: []string{hard}}},
				{memoryAt(2*time.Second, 100), state{}},
			},
		},
		{
			name:       "a soft threshold waits for its grace period and a break starts it anew",
			thresholds: []Threshold{softMemory(200, 10*time.Second)},
			steps: []step{
				{memoryAt(0, 150), state{Waiting: []string{soft}}},
				{memoryAt(9*time.Second, 150), state{Waiting: []string{soft}}},
				{memoryAt(9500*time.Millisecond, 250), state{}},
				{memoryAt(11*time.Second, 150), state{Waiting: []string{soft}}},
				{memoryAt(21*time.Second, 150), state{Holding: []string{soft}}},
			},
		},
		{
			name:       "a soft timer survives one missing sample and not two",
			thresholds: []Threshold{softMemory(200, 10*time.Second)},
			steps: []step{
				{memoryAt(0, 150), state{Waiting: []string{soft}}},
				{memoryUnknownAt(5 * time.Second), state{Unknown: []Signal{MemoryAvailable}}},
				{memoryAt(10*time.Second, 150), state{Holding: []string{soft}}},
				{memoryUnknownAt(11 * time.Second), state{Unknown: []Signal{MemoryAvailable}}},
				{memoryUnknownAt(12 * time.Second), state{Unknown: []Signal{MemoryAvailable}}},
				{memoryAt(13*time.Second, 150), state{Waiting: []string{soft}}},
			},
		},
		{
			name: "minimum reclaim keeps a threshold that held, and only that",
			thresholds: []Threshold{{
				Signal: MemoryAvailable, Quantity: Absolute(100), Hard: true, MinReclaim: Absolute(50),
			}},
			steps: []step{
				{memoryAt(0, 120), state{}},
				{memoryAt(1*time.Second, 90), state{Holding: []string{hard}}},
				{memoryAt(2*time.Second, 149), state{Holding: []string{hard}}},
				{memoryAt(3*time.Second, 150), state{}},
				{memoryAt(4*time.Second, 120), state{}},
			},
		},
		{
			name:       "hard comes before soft",
			thresholds: []Threshold{softMemory(200, time.Second), hardMemory(100)},
			steps: []step{
				{memoryAt(0, 50), state{Holding: []string{hard}, Waiting: []string{soft}}},
				{memoryAt(1*time.Second, 50), state{Holding: []string{hard, soft}}},
			},
		},
		{
			name:       "a sample that is not newer is stale",
			thresholds: []Threshold{hardMemory(100)},
			steps: []step{
				{memoryAt(time.Second, 500), state{}},
				{memoryAt(time.Second, 50), state{Stale: true}},
				{memoryAt(0, 50), state{Stale: true}},
				{memoryAt(2*time.Second, 50), state{Holding: []string{hard}}},
			},
		},
		{
			name: "a signal that is absent is neither unknown nor pressure",
			thresholds: []Threshold{{
				Signal: NodeFSInodesFree, Quantity: Absolute(100), Hard: true,
			}},
			steps: []step{{memoryAt(0, 0), state{}}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			judge := NewJudge(JudgeOptions{Thresholds: test.thresholds})
			for i, s := range test.steps {
				verdict := judge.Judge(s.sample)
				if diff := cmp.Diff(s.want, stateOf(verdict), cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// Guards invariant 1: unknown is never zero and never pressure.
func TestInvariant01UnknownIsNeverPressure(t *testing.T) {
	t.Parallel()
	thresholds := make([]Threshold, 0, SignalCount)
	for _, s := range Signals() {
		thresholds = append(thresholds, Threshold{Signal: s, Quantity: Absolute(1 << 40), Hard: true})
	}
	judge := NewJudge(JudgeOptions{Thresholds: thresholds, Transition: time.Minute})
	var nothingFilledIn Sample
	nothingFilledIn.Time = moment(0)
	verdict := judge.Judge(&nothingFilledIn)
	if len(verdict.Pressures) != 0 || len(verdict.Waiting) != 0 {
		t.Errorf("an empty sample is pressure: %+v", verdict)
	}
	if len(verdict.Unknown) != SignalCount {
		t.Errorf("unknown = %v, want all %d signals", verdict.Unknown, SignalCount)
	}
	for _, s := range Signals() {
		p := Pressure{Threshold: Threshold{Signal: s}, Target: 1 << 40}
		if p.HoldsIn(&nothingFilledIn) {
			t.Errorf("%v: a second look that read nothing confirms the pressure", s)
		}
	}
}

// Every phase of a soft threshold with minimum reclaim is reached and left.
func TestJudgeReachesAndLeavesEveryPhase(t *testing.T) {
	t.Parallel()
	threshold := softMemory(200, 2*time.Second)
	threshold.MinReclaim = Absolute(100)
	judge := NewJudge(JudgeOptions{Thresholds: []Threshold{threshold}})
	seen := map[[2]phase]bool{}
	before := judge.lines[0].phase
	for i, available := range []int64{500, 150, 250, 150, 150, 150, 250, 350, 150} {
		judge.Judge(memoryAt(time.Duration(i)*time.Second, available))
		seen[[2]phase{before, judge.lines[0].phase}] = true
		before = judge.lines[0].phase
	}
	want := map[[2]phase]bool{
		{calm, calm}: true, {calm, waiting}: true, {waiting, calm}: true, {waiting, waiting}: true,
		{waiting, holding}: true, {holding, holding}: true, {holding, calm}: true,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
}

func TestUnderOutlivesTheLastMetByTheTransitionPeriod(t *testing.T) {
	t.Parallel()
	judge := NewJudge(JudgeOptions{Thresholds: []Threshold{hardMemory(100)}, Transition: time.Minute})
	for _, step := range []struct {
		at        time.Duration
		available int64
		under     bool
	}{
		{0, 500, false},
		{1 * time.Second, 50, true},
		{2 * time.Second, 500, true},
		{60 * time.Second, 500, true},
		{61 * time.Second, 500, false},
	} {
		verdict := judge.Judge(memoryAt(step.at, step.available))
		if got := verdict.Under[MemoryAvailable]; got != step.under {
			t.Errorf("after %v: under = %v, want %v", step.at, got, step.under)
		}
	}
}

func TestPressureFigures(t *testing.T) {
	t.Parallel()
	judge := NewJudge(JudgeOptions{Thresholds: []Threshold{{
		Signal: MemoryAvailable, Quantity: Fraction(0.1), Hard: true, MinReclaim: Fraction(0.05),
	}}})
	verdict := judge.Judge(memoryAt(0, 90))
	if len(verdict.Pressures) != 1 {
		t.Fatalf("pressures = %v, want one", verdict.Pressures)
	}
	p := verdict.Pressures[0]
	if p.Line != 100 || p.Target != 150 || p.Deficit() != 60 || !p.Since.Equal(moment(0)) {
		t.Errorf("line %d target %d deficit %d since %v, want 100, 150, 60, %v", p.Line, p.Target, p.Deficit(), p.Since, moment(0))
	}
}

// The kubelet's float32 percentages, to the byte (research: api/types.go).
func TestFractionRoundsAsTheKubelet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fraction float32
		capacity int64
		want     int64
	}{
		{float32(10) / 100, 107374182400, 10737418400},
		{float32(15) / 100, 107374182400, 16106128000},
		{float32(10.5) / 100, 1 << 30, 112742888},
	} {
		if got := Fraction(test.fraction).Of(test.capacity); got != test.want {
			t.Errorf("%v of %d = %d, want %d", test.fraction, test.capacity, got, test.want)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	judge := NewJudge(JudgeOptions{
		Thresholds: []Threshold{softMemory(200, time.Second), hardMemory(100)}, Transition: time.Minute,
	})
	sample := memoryAt(0, 150)
	b.ReportAllocs()
	for b.Loop() {
		sample.Time = sample.Time.Add(time.Millisecond)
		judge.Judge(sample)
	}
}
