// Package agent is the loop: one tick, readable on one screen, and the only place where all else
// meets. docs/architecture.md reads it aloud.
//
//	Sample ─▶ Verdict ─▶ Situation ─▶ Plan or Hold ─▶ Report
//
// Every outcome is a [decide.Decision], also that no pod was evicted, and a [Recorder] makes log
// lines, Events and metrics of it.
package agent

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Agent is the loop. One goroutine decides and owns everything below. A second one carries out a
// plan and returns its report, so that a slow API server never stops the loop from watching.
type Agent struct {
	options   Options
	measurer  *measure.Measurer
	executor  *execute.Executor
	planned   *decide.Decision // the plan's that the executor carries out; nil when it has none
	known     State            // what was remembered when it began
	compared  time.Time        // when the plan was last compared with the pods' use, or, without a plan, a pod to warn was last looked for
	reload    chan func()
	progress  atomic.Pointer[progress]
	documents documents // for those who ask at /debug/status

	// The policy that decisions are made by, and what judges the node by it.
	policy  Policy       // with what Acting says for DryRun
	acts    acting.State // what Acting said last
	judge   *pressure.Judge
	pacer   *pressure.Pacer
	watched time.Time // since when the node has been judged by this policy

	// What is remembered, and kept for the next process.
	victims   *inflight.Tracker
	cooldown  *cooldown.Tracker
	incidents *incident.Tracker
	changed   bool // since it was kept
}

// New returns an agent that has not started.
func New(options Options) *Agent {
	a := &Agent{
		options: options, reload: make(chan func()), documents: documents{asks: make(chan statusAsk)},
		measurer:  measure.New(options.Measure),
		cooldown:  cooldown.New(options.Policy.Limits, options.Random),
		incidents: incident.New(options.OOMKills, options.Pods.List, options.Recorder.Failed),
	}
	a.executor = execute.New(execute.Options{ // what it calls runs on its goroutine
		Evictor: options.Evictor, Tainted: options.Taints.Settled, Held: options.Held, Now: time.Now,
		Listed: func(uid string) bool {
			return slices.ContainsFunc(options.Pods.List(), func(pod *nodepods.Pod) bool { return pod.UID == uid })
		},
		BeforeSend: a.beforeSend, Intent: options.Recorder.Intent,
	})
	a.victims = inflight.New(options.Pods, a.measurer)
	a.progress.Store(&progress{time.Now(), errors.New("no sample has been read yet")}) // a first tick may hang too
	a.restore(options.Remembered, time.Now())
	a.adopt(options.Policy)
	return a
}

// adopt makes a policy the active one. Thresholds start from calm, which can delay an eviction and
// never hastens one.
func (a *Agent) adopt(policy Policy) {
	a.policy = policy
	a.putActing(policy.Acting(), "the configuration changed")
	a.measurer.Adopt(policy.MemoryAvailable, policy.Kubelet)
	a.judge = pressure.NewJudge(policy.Thresholds, policy.Transition)
	a.pacer = pressure.NewPacer(policy.Pacing, policy.Thresholds)
	a.watched = time.Now()
}

// putActing puts in force whether the agent acts. What was met of thresholds stays: a stop and its
// end neither delay nor hasten what the configuration says. A plan is made for one of the two, and
// what a dry run simulated is forgotten with its end.
func (a *Agent) putActing(now acting.State, cause string) {
	if a.planned != nil {
		a.executor.Cancel(errors.New(cause), false)
	}
	a.acts = now
	a.policy.DryRun, a.policy.DryRunWhy = !now.Acts(), now.Why
	a.options.Recorder.Acting(now)
	a.victims.Adopt(a.policy.DryRun)
	a.incidents.Adopt(a.policy.DryRun)
	a.cooldown.Adopt(a.policy.Limits, a.policy.DryRun)
	a.changed = true
}

// Reload makes a policy the active one before the next tick, with what reads the node for its thresholds. It
// returns true when the loop no longer uses what did before, and false when the context ended first.
func (a *Agent) Reload(ctx context.Context, policy Policy, sample func(now time.Time) pressure.Sample) bool {
	select {
	case a.reload <- func() { a.options.Sample = sample; a.adopt(policy) }:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run watches the node until the context ends. After that no new eviction starts; a pending one
// gets a few seconds for its response and its record.
func (a *Agent) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var ticked time.Time
	wake := a.options.Wake
	for {
		a.answerAsks(ctx)
		select {
		case <-ctx.Done():
			if a.planned != nil {
				a.takeReport(<-a.executor.Reports())
			}
			a.options.Save(a.export())()
			return nil
		case adopt := <-a.reload:
			adopt()
		case ask := <-a.documents.asks:
			a.documents.waiting = append(a.documents.waiting, ask)
			continue
		case <-a.options.Acting: // the tick asks
		case done := <-a.executor.Reports():
			a.takeReport(done)
		case take := <-a.measurer.Measured():
			take()
		case <-wake:
			if rest := a.policy.Pacing.Min - time.Since(ticked); rest > 0 {
				wake = nil // not received until the tick: a storm of them must not spin here
				timer.Reset(rest)
				continue
			}
		case <-timer.C:
		}
		next := a.tick(ctx)
		ticked, wake = time.Now(), a.options.Wake
		timer.Reset(next)
	}
}

// takeReport takes what became of a plan, or of a request in doubt: it has it remembered, and records the
// decision, which has a hold only where no request was sent. A request in doubt that may have ended its pod has.
func (a *Agent) takeReport(r decide.Report) {
	now := time.Now()
	switch a.planned = nil; {
	case r.Left == nil:
	case r.Left.MayBeOurs(now):
		r = r.Left.CarriedOut(now, "reading the pod again", a.victims.All())
	default: // it is about that request, which may be for another resource than the plan
		r.Incident, r.Pressure = r.Left.Incident, r.Left.Pressure
	}
	a.learn(&r, now)
	switch {
	case len(r.Attempts) > 0:
		r.Hold = decide.HoldNone
	case r.Hold == decide.HoldNone: // it was canceled before its first request, and is not recorded
		return
	}
	a.options.Recorder.Decision(&r.Decision)
}

// learn takes what became of a plan, or of a request in doubt, and keeps it: the victim is followed
// and counted, and the refusals are remembered.
func (a *Agent) learn(r *decide.Report, now time.Time) {
	victim := a.victims.Learn(r, now)
	a.cooldown.Observe(r, now)
	if victim != nil {
		pod, simulated := victim.Entry.Pod, victim.Result.Outcome.Simulated()
		a.incidents.Add(r.Incident, incident.Victim{Pod: pod.Key(), UID: pod.UID, DryRun: simulated})
		a.cooldown.Accept(pod.OwnerUID, simulated, now)
	}
	a.changed = true
}
