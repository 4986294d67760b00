package memories

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// kept has the state that was saved last.
type kept struct{ last state.State }

func (k *kept) Save(s state.State) func() {
	k.last = s
	return func() {}
}

// node runs its pods for ever.
type node struct{}

func (node) Collect(into []usage.Pod) ([]usage.Pod, error) { return into, nil }
func (node) Stalls() ([]usage.Stall, error)                { return nil, nil }
func (node) Present(string) (bool, error)                  { return true, nil }
func (node) Synced() bool                                  { return true }
func (node) List() []*nodepods.Pod                         { return nil }

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func policy() cooldown.Limits { return cooldown.Limits{PerMinute: 1} }

// starting returns the memories of a process that starts with what was kept.
func starting(to *kept, known *state.State, dryRun bool) *Memories {
	fault := func(string, error) {}
	m := New(Options{
		Victims: inflight.New(inflight.Options{
			Pods: node{}, SentLast: func(string) bool { return false }, Measurer: measure.New(measure.Options{Cgroups: node{}, Fault: fault}),
		}),
		Pods:   node{},
		Fault:  fault,
		Limits: policy(), Random: func() float64 { return 0 }, Kept: to,
	})
	m.Restore(known, noon())
	m.Adopt(pressure.Kernel, policy(), dryRun)
	m.Restored()
	return m
}

// short returns a sample of a node that is short of memory, and a decision about it.
func short(m *Memories) *decide.Decision {
	sample := &pressure.Sample{Time: noon()}
	sample.Observations[pressure.MemoryAvailable] = pressure.Observation{State: pressure.Known, Available: 50, Capacity: 1000}
	line := pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(100), Hard: true}
	p := pressure.Pressure{Threshold: line, Observed: sample.Of(pressure.MemoryAvailable), Line: 100, Target: 100, SampleTime: noon()}
	began, _ := m.FollowIncidents(sample, []pressure.Threshold{line}, time.Minute)
	if len(began) == 1 {
		m.Save()
	}
	return &decide.Decision{Time: noon(), Pressure: p, Incident: m.IncidentOf(&p)}
}

// attempt returns a request for a pod with an outcome.
func attempt(name string, outcome evict.Outcome) decide.Attempt {
	pod := &rank.Pod{Namespace: "shop", Name: name, UID: "uid-" + name}
	return decide.Attempt{Entry: rank.Entry{Pod: pod}, Result: evict.Result{Outcome: outcome}}
}

// remembered says what memories know of the two pods of one report.
func remembered(m *Memories) map[string]bool {
	_, refused := m.Cooldown.Pod(&rank.Pod{UID: "uid-refused"}, cooldown.Pressure{Signal: pressure.MemoryAvailable}, noon())
	_, limited := m.Cooldown.Node(noon())
	open := m.Incidents.Open()
	return map[string]bool{
		"the victim is in flight": m.Victims.Terminates("uid-victim"),
		"it counts for the limit": limited,
		"the refusal is known":    refused,
		"the incident names it":   len(open) == 1 && len(open[0].Victims) == 1 && open[0].Victims[0].UID == "uid-victim",
	}
}

// TestReportTeachesAllMemories: one report is known to all of them, and to those of the next
// process.
func TestReportTeachesAllMemories(t *testing.T) {
	t.Parallel()
	to := &kept{}
	m := starting(to, &state.State{}, false)
	d := short(m)
	m.BeforePlan()
	d.Attempts = []decide.Attempt{attempt("refused", evict.BlockedByBudget), attempt("victim", evict.Evicted)}
	m.Learn(d, &decide.Report{Verb: decide.Acted, Attempts: d.Attempts}, noon())
	for when, known := range map[string]map[string]bool{
		"at once": remembered(m), "after a restart": remembered(starting(&kept{}, &to.last, false)),
	} {
		for what, is := range known {
			if !is {
				t.Errorf("%s: not true that %s", when, what)
			}
		}
	}
}

// TestDryRunIsForgottenWithItsEnd: a would-be victim is none for the process that may act, and that
// is kept.
func TestDryRunIsForgottenWithItsEnd(t *testing.T) {
	t.Parallel()
	to := &kept{}
	m := starting(to, &state.State{}, true)
	d := short(m)
	m.BeforePlan()
	d.Attempts = []decide.Attempt{attempt("victim", evict.WouldEvict)}
	m.Learn(d, &decide.Report{Verb: decide.Acted, Attempts: d.Attempts}, noon())
	if _, limited := m.Cooldown.Node(noon()); !limited || !m.Victims.Terminates("uid-victim") {
		t.Errorf("in the dry run: limited %v, in flight %v; want both", limited, m.Victims.Terminates("uid-victim"))
	}
	m.Adopt(pressure.Kernel, policy(), false)
	m.Save()
	for when, now := range map[string]*Memories{"at once": m, "after a restart": starting(&kept{}, &to.last, false)} {
		_, limited := now.Cooldown.Node(noon())
		if limited || now.Victims.Terminates("uid-victim") || len(now.Incidents.Open()[0].Victims) != 0 {
			t.Errorf("%s: a would-be victim counts after the dry run", when)
		}
	}
}

// TestNothingKnownIsNotNothingThere: a start without a state is not one with an empty state.
func TestNothingKnownIsNotNothingThere(t *testing.T) {
	t.Parallel()
	for signal, within := range map[pressure.Signal]time.Duration{
		pressure.NodeFSAvailable: decide.CollectedWithin, pressure.MemoryAvailable: decide.ShownWithin,
	} {
		if until := starting(&kept{}, nil, false).Victims.UnknownUntil(signal); !until.Equal(noon().Add(within)) {
			t.Errorf("%v: nothing is known, and a victim may be in flight until %v, want for %v", signal, until, within)
		}
		if until := starting(&kept{}, &state.State{}, false).Victims.UnknownUntil(signal); !until.IsZero() {
			t.Errorf("%v: nothing was kept, and a victim may be in flight until %v", signal, until)
		}
	}
}
