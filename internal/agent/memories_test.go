package agent

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// starting returns the agent of a process that starts with what was kept, on a node that runs both pods
// of the report below.
func starting(t *testing.T, to *file, dryRun bool) *Agent {
	t.Helper()
	n, policy := newFakeNode(1000), limited(1)
	n.run("victim", 100, 0)
	n.run("refused", 100, 0)
	policy.DryRun, policy.Transition = dryRun, time.Minute
	return newAgent(t, n, policy, func(o *Options) {
		o.Memory, o.Remembered = to, &State{}
		if kept := to.load(); kept != nil {
			o.Remembered = kept
		}
	})
}

// learns lets an agent on a node that is short of memory learn that one pod was refused and another
// evicted, or would have been.
func learns(a *Agent, outcome evict.Outcome) {
	now := time.Now()
	sample, verdict := &pressure.Sample{Time: now}, &pressure.Verdict{}
	sample.Observations[pressure.MemoryAvailable] = pressure.Observation{State: pressure.Known, Available: 50, Capacity: 1000}
	a.followIncidents(sample, verdict)
	p := pressure.Pressure{Threshold: a.policy.Thresholds[0], Observed: sample.Of(pressure.MemoryAvailable), Line: 100, Target: 100, SampleTime: now}
	d := &decide.Decision{Time: now, Pressure: p, Incident: a.incidents.ID(&p)}
	for name, outcome := range map[string]evict.Outcome{"refused": evict.BlockedByBudget, "victim": outcome} {
		pod := &rank.Pod{Namespace: "shop", Name: name, UID: "uid-" + name}
		d.Attempts = append(d.Attempts, decide.Attempt{Entry: rank.Entry{Pod: pod}, Result: evict.Result{Outcome: outcome}})
	}
	a.begin(d)
	a.learn(d, &decide.Report{Attempts: d.Attempts}, now)
	a.planned = nil
}

// remembered says what an agent knows of the two pods.
func remembered(a *Agent) map[string]bool {
	now := time.Now()
	_, refused := a.cooldown.Pod(&decide.Situation{Pressure: pressure.Pressure{SampleTime: now}}, &rank.Pod{Namespace: "shop", UID: "uid-refused"}, false)
	_, limited := a.cooldown.Node(now)
	open := a.incidents.Open()
	return map[string]bool{
		"the victim is in flight": a.victims.Terminates("uid-victim"),
		"it counts for the limit": limited,
		"the refusal is known":    refused,
		"the incident names it":   len(open) == 1 && len(open[0].Victims) == 1 && open[0].Victims[0].UID == "uid-victim",
	}
}

// TestReportTeachesAllMemories: one report is known to all that remembers, and to that of the next
// process.
func TestReportTeachesAllMemories(t *testing.T) {
	t.Parallel()
	to := &file{t: t}
	a := starting(t, to, false)
	learns(a, evict.Evicted)
	for when, known := range map[string]map[string]bool{"at once": remembered(a), "after a restart": remembered(starting(t, to, false))} {
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
	to := &file{t: t}
	a := starting(t, to, true)
	learns(a, evict.WouldEvict)
	if known := remembered(a); !known["it counts for the limit"] || !known["the victim is in flight"] {
		t.Errorf("in the dry run: %v, want both", known)
	}
	a.putActing(acting.State{}, "a test")
	a.saveChanged()
	for when, now := range map[string]*Agent{"at once": a, "after a restart": starting(t, to, false)} {
		known := remembered(now)
		if known["it counts for the limit"] || known["the victim is in flight"] || len(now.incidents.Open()[0].Victims) != 0 {
			t.Errorf("%s: a would-be victim counts after the dry run: %v", when, known)
		}
	}
}

// TestNothingKnownIsNotNothingThere: a start without a state is not one with an empty state.
func TestNothingKnownIsNotNothingThere(t *testing.T) {
	t.Parallel()
	for signal, within := range map[pressure.Signal]time.Duration{
		pressure.NodeFSAvailable: decide.CollectedWithin, pressure.MemoryAvailable: decide.ShownWithin,
	} {
		before := time.Now()
		if until := newAgent(t, newFakeNode(1000), hardPolicy(), knowsNothing).victims.UnknownUntil(signal); until.Before(before.Add(within)) {
			t.Errorf("%v: nothing is known, and a victim may be in flight until %v, want for %v", signal, until, within)
		}
		if until := starting(t, &file{t: t}, false).victims.UnknownUntil(signal); !until.IsZero() {
			t.Errorf("%v: nothing was kept, and a victim may be in flight until %v", signal, until)
		}
	}
}
