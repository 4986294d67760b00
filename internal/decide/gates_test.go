package decide_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// waits is a cooldown by values: what is set waits.
type waits map[string]bool

func (w waits) Node(time.Time) (decide.Wait, bool)           { return decide.Wait{}, w["node"] }
func (w waits) Server(time.Time) (decide.Wait, bool)         { return decide.Wait{}, w["server"] }
func (w waits) Jitter(*decide.Situation) (decide.Wait, bool) { return decide.Wait{}, w["jitter"] }
func (w waits) Bypass(time.Time) (decide.Wait, bool)         { return decide.Wait{}, w["bypass"] }
func (w waits) Owner(*decide.Situation, *rank.Pod) (decide.Wait, bool) {
	return decide.Wait{}, w["owner"]
}

func (w waits) Pod(*decide.Situation, *rank.Pod, bool) (decide.Wait, bool) {
	return decide.Wait{}, w["pod"]
}

// waiting makes one thing wait in a situation.
func waiting(what string) func(*decide.Situation) {
	return func(s *decide.Situation) {
		if w, is := s.Cooldown.(waits); is {
			w[what] = true
		}
	}
}

const second = time.Second

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// short returns a situation in which the pod hog is evicted for a hard threshold of a signal: 40 of
// 100 are missing, and the pod holds 60 beside a request of 10.
func short(signal pressure.Signal) *decide.Situation {
	hog := &nodepods.Pod{Pod: rank.Pod{UID: "uid-hog", Namespace: "shop", Name: "hog"}, CgroupUID: "uid-hog", Started: true}
	sample := &pressure.Sample{Time: noon()}
	for _, s := range pressure.Signals() {
		sample.Observations[s] = pressure.Observation{State: pressure.Known, Available: 60, Capacity: 1000}
	}
	return &decide.Situation{
		Pressure: pressure.Pressure{
			Threshold: pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(100), Hard: true},
			Observed:  sample.Of(signal), Line: 100, Target: 100, Since: noon().Add(-time.Minute), SampleTime: noon(),
		},
		Sample: sample, Pods: []*nodepods.Pod{hog}, Cooldown: waits{},
		Policy: &decide.Policy{
			Thresholds:     []pressure.Threshold{{Signal: signal, Quantity: pressure.Absolute(100), Hard: true}},
			WithinRequests: decide.WithinRequestsUntilExhaustion,
		},
	}
}

// measured adds that the pod hog uses and would free so much.
func measured(s *decide.Situation, amount int64) {
	s.Uses = &decide.Uses{Requested: s.Pressure.SampleTime, ByUID: map[string]decide.Use{"uid-hog": {
		Value: amount, Known: true, Expected: pressure.Amounts{}.With(s.Pressure.Threshold.Signal, amount),
	}}}
}

// trouble is one thing that holds a decision back.
type trouble struct {
	name string
	want decide.Hold
	add  func(*decide.Situation)
}

// Each gate holds by itself, and where several would, the first one of the order does.
func TestGatesHoldInTheirOrder(t *testing.T) {
	t.Parallel()
	disk := pressure.NodeFSAvailable
	for name, troubles := range map[string][]trouble{
		"before the pods are measured": {
			{"a reading that failed", decide.HoldIncompleteReading, func(s *decide.Situation) {
				s.Sample.Observations[disk] = pressure.Observation{Err: errors.New("planted")}
			}},
			{"a line that is not met any more", decide.HoldRecovered, func(s *decide.Situation) {
				s.Pressure.Target, s.Sample.Observations[disk].Available = 200, 100
			}},
			{"pods that are not listed yet", decide.HoldPodsNotSynced, func(s *decide.Situation) { s.Unsynced = true }},
			{"a list that is stale", decide.HoldPodsStale, func(s *decide.Situation) { s.Stale = errors.New("planted") }},
			{"a reading from before the last end", decide.HoldAwaitingNewerSample, func(s *decide.Situation) { s.LastEnd = noon() }},
			{"an overloaded server", decide.HoldBackingOff, waiting("server")},
			{"a request in doubt", decide.HoldRequestInDoubt, func(s *decide.Situation) {
				s.InDoubt = &decide.InDoubt{Attempt: decide.Attempt{Entry: rank.Entry{Pod: &rank.Pod{Name: "hog"}}}, Rests: noon().Add(second)}
			}},
			{"a victim of which nothing is known", decide.HoldReclaimInProgress, func(s *decide.Situation) { s.UnknownUntil = noon().Add(second) }},
			{"the limit a minute", decide.HoldLimitReached, waiting("node")},
			{"soft jitter", decide.HoldSoftJitter, waiting("jitter")},
		},
		"once they are": {
			{"a disk that is being measured", decide.HoldUsageUnknown, func(s *decide.Situation) { s.Uses.Requested = time.Time{} }},
			{"enough in flight", decide.HoldReclaimInProgress, func(s *decide.Situation) {
				s.InFlight = []decide.Victim{{
					UID: "uid-other", Expected: pressure.Amounts{}.With(disk, 40), Accepted: noon(), Deadline: noon().Add(time.Minute),
				}}
			}},
			{"images go first", decide.HoldImagesFirst, func(s *decide.Situation) {
				s.Images = decide.Images{Requested: noon(), Bytes: 40, Line: 50, Within: time.Minute}
			}},
			{"the limit a minute", decide.HoldLimitReached, waiting("node")},
			{"no pod", decide.HoldNoCandidates, func(s *decide.Situation) { s.Pods = nil }},
			{"a pod within its request", decide.HoldWithinRequests, func(s *decide.Situation) {
				s.Policy.WithinRequests = decide.WithinRequestsAlways
				measured(s, 0)
			}},
			{"a pod that is spared", decide.HoldNoCandidates, func(s *decide.Situation) {
				s.Pressure.Threshold.Hard, s.Policy.Rules.MinAge = false, time.Minute
				if len(s.Pods) > 0 {
					s.Pods[0].Created = noon()
				}
			}},
			{"a pod that was refused", decide.HoldBackingOff, waiting("pod")},
			{"the limit of its owner", decide.HoldLimitReached, waiting("owner")},
			{"a pod that holds too little", decide.HoldInsufficientReclaim, func(s *decide.Situation) { measured(s, 1) }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build := func(add ...trouble) *decide.Situation {
				s := short(disk)
				if name == "once they are" {
					measured(s, 60)
				}
				for _, one := range slices.Backward(add) {
					one.add(s)
				}
				return s
			}
			calm := build()
			for range 2 { // nothing is written to the situation
				plan := decided(calm)
				if plan.Held() {
					t.Fatalf("nothing is wrong, and it holds: %s: %s", plan.Decision.Hold, plan.Decision.Detail)
				}
				if calm.Uses != nil && (len(plan.Candidates) != 1 || plan.Required != 40 || plan.Escalates() || plan.BypassPDB) {
					t.Errorf("nothing is wrong, and the plan is %+v", plan)
				}
			}
			for i, first := range troubles {
				if hold := decided(build(first)).Decision.Hold; hold != first.want {
					t.Errorf("%s: %q, want %q", first.name, hold, first.want)
				}
				for _, later := range troubles[i+1:] {
					if hold := decided(build(first, later)).Decision.Hold; hold != first.want {
						t.Errorf("%s and %s: %q, want %q", first.name, later.name, hold, first.want)
					}
				}
			}
		})
	}
}

// A disk that is full gets no worse while a victim of a process before is waited for; a node without memory does.
func TestFaultFullDiskWaitsForAVictimOfBefore(t *testing.T) {
	t.Parallel()
	for signal, want := range map[pressure.Signal]decide.Hold{
		pressure.NodeFSAvailable: decide.HoldReclaimInProgress, pressure.MemoryAvailable: decide.HoldNone,
	} {
		s := short(signal)
		s.Pressure.Observed.Available, s.UnknownUntil = 0, noon().Add(second)
		if hold := decided(s).Decision.Hold; hold != want {
			t.Errorf("%v: %q, want %q", signal, hold, want)
		}
	}
}

// decided returns what is decided in a situation, before or after it was measured.
func decided(s *decide.Situation) decide.Plan {
	if s.Uses == nil {
		return decide.BeforeMeasuring(s)
	}
	return decide.Decide(s)
}

// A victim of evictd's own that is not relied on any more gets the hard grace period, before another
// pod is evicted and although the limit a minute is reached.
func TestOverdueVictimIsEscalated(t *testing.T) {
	t.Parallel()
	build := func() *decide.Situation {
		s := short(pressure.MemoryAvailable)
		s.Policy.HardGrace, s.Policy.OverdueGrace = 5, 60
		s.Cooldown = waits{"node": true}
		s.Pods[0].Terminating, s.Pods[0].DeletionGraceSeconds = true, new(int64(3600))
		s.InFlight = []decide.Victim{{
			UID: "uid-hog", Signal: "memory.available", Expected: pressure.Amounts{}.With(pressure.MemoryAvailable, 60),
			Accepted: noon().Add(-decide.HardPatience - second), Deadline: noon().Add(time.Hour), GraceSeconds: 3600,
		}}
		return s
	}
	unmeasured := build()
	unmeasured.InFlight[0].Expected = pressure.Amounts{}
	if plan := decided(unmeasured); plan.Held() {
		t.Errorf("one that may hold something again: held before it is measured: %s", plan.Decision.Hold)
	}
	for name, test := range map[string]struct {
		change    func(*decide.Situation)
		escalates bool
	}{
		"a soft victim of an hour":      {func(*decide.Situation) {}, true},
		"one that others end":           {func(s *decide.Situation) { s.InFlight[0].Signal = "" }, false},
		"one that is relied on":         {func(s *decide.Situation) { s.InFlight[0].Accepted = noon() }, false},
		"one that was escalated":        {func(s *decide.Situation) { s.InFlight[0].Escalated = noon().Add(-time.Hour) }, false},
		"one that holds nothing":        {func(s *decide.Situation) { s.InFlight[0].Expected = pressure.Amounts{} }, false},
		"one with less grace":           {func(s *decide.Situation) { s.Pods[0].DeletionGraceSeconds = new(int64(5)) }, false},
		"no hard grace period":          {func(s *decide.Situation) { s.Policy.HardGrace = 0 }, true},
		"no overdue grace period":       {func(s *decide.Situation) { s.Policy.OverdueGrace = 0 }, false},
		"one of which nothing is known": {func(s *decide.Situation) { s.Uses = &decide.Uses{} }, false},
	} {
		s := build()
		if test.change(s); test.escalates {
			if plan := decided(s); plan.Held() {
				t.Errorf("%s: held before it is measured: %s", name, plan.Decision.Hold)
			}
		}
		measured(s, 60)
		test.change(s)
		plan := decide.Decide(s)
		if got := plan.Escalates(); got != test.escalates {
			t.Errorf("%s: escalated %v, want %v", name, got, test.escalates)
		}
	}
}
