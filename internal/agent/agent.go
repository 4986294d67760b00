package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/decisions"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/victims"
	"github.com/evictd/evictd/pkg/pressure"
)

// Agent is the loop. One goroutine decides and owns everything below. It starts a second one for
// each eviction request, which returns its report, so that a slow API server never stops the loop
// from watching the node.
type Agent struct {
	inForce
	underWay

	options   Options
	incidents *incident.Tracker
	victims   *victims.Follower
	cooldown  *cooldown.Tracker
	measurer  *measure.Measurer
	decisions *decisions.Journal
	memory    *state.Keeper // what survives a restart, see remember.go
	health    health
}

// inForce is the policy in force, and what judges the node by it.
type inForce struct {
	policy  Policy
	reload  chan change
	judge   *pressure.Judge
	pacer   *pressure.Pacer
	watched time.Time // since when the node has been judged by this policy
	covered covered   // see covered.go
}

// underWay is the plan that is being carried out.
type underWay struct {
	executor *execute.Executor
	acting   *decide.Decision // the plan's; nil when none is
	looked   time.Time        // when it was last compared with the node, see keepwatch.go
}

// New returns an agent that has not started.
func New(options Options) (*Agent, error) {
	if options.Sampler == nil || options.Pods == nil || options.Cgroups == nil ||
		options.Evictor == nil || options.Recorder == nil || options.Random == nil {
		return nil, errors.New("building the agent: a part is missing")
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	a := &Agent{
		options:  options,
		inForce:  inForce{reload: make(chan change)},
		cooldown: cooldown.New(options.Policy.Limits, options.Random, permits.WorkloadOf),
		measurer: measure.New(measure.Options{
			Cgroups: options.Cgroups, Disk: options.Disk, Images: options.Images, Fault: options.Recorder.ReadError,
		}),
		decisions: decisions.New(options.Recorder.Decision, options.Host),
	}
	a.victims = victims.New(victims.Options{
		Pods: options.Pods, Cgroups: options.Cgroups, Measurer: a.measurer, FreeOnCPULists: options.FreeOnCPULists,
		Fault: options.Recorder.ReadError, Permits: options.Permits,
		SentLast: func(uid string) bool { return a.acting != nil && a.executor.SentLast(uid) },
	})
	a.executor = a.newExecutor()
	a.incidents = incident.New(incident.Sources{OOMKills: options.OOMKills, Evicted: a.victims.Evicted, Fault: options.Recorder.ReadError})
	a.memory = state.NewKeeper(options.Memory, a.export)
	if options.Remembered != nil {
		a.restore(options.Remembered, a.options.Clock.Now())
	} else {
		a.cooldown.StartCarefully(inflight.CollectedWithin)
	}
	a.adopt(options.Policy)
	a.memory.Restored()
	return a, nil
}

// adopt puts a policy in force. Thresholds start from calm, which can delay an
// eviction and never hastens one.
func (a *Agent) adopt(policy Policy) {
	if !policy.DryRun {
		a.victims.ForgetDryRuns()
		a.cooldown.ForgetDryRuns()
		a.incidents.ForgetDryRuns()
	}
	a.memory.Changed(a.policy.DryRun && !policy.DryRun)
	if a.acting != nil {
		a.executor.Cancel(errors.New("the configuration changed"))
	}
	a.policy = policy
	a.victims.Adopt(policy.MemoryAvailable)
	a.measurer.Adopt(policy.MemoryAvailable, policy.ImageReclaim)
	a.judge = pressure.NewJudge(pressure.JudgeOptions{
		Thresholds: policy.Thresholds, Transition: policy.Transition, CutGrace: policy.CutGrace,
	})
	a.pacer = pressure.NewPacer(policy.Pacing, policy.Thresholds)
	a.cooldown.SetLimits(policy.Limits)
	a.watched = a.options.Clock.Now()
}

// change is what Reload hands to the loop.
type change struct {
	policy  Policy
	sampler Sampler
}

// Reload puts a policy in force before the next tick, with a sampler that reads the signals of its
// thresholds. It returns true when the loop has taken both and no longer uses the sampler before,
// and false when the context ended first.
func (a *Agent) Reload(ctx context.Context, policy Policy, sampler Sampler) bool {
	select {
	case a.reload <- change{policy, sampler}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run watches the node until the context ends. After that no new eviction starts; a pending one
// gets a few seconds for its response and its record.
func (a *Agent) Run(ctx context.Context) error {
	a.health.begin(a.options.Clock.Now())
	timer := a.options.Clock.NewTimer(0)
	defer timer.Stop()
	var ticked time.Time
	wake := a.options.Wake
	for {
		select {
		case <-ctx.Done():
			a.drain()
			return nil
		case to := <-a.reload:
			a.options.Sampler = to.sampler
			a.adopt(to.policy)
		case done := <-a.executor.Reports():
			a.takeReport(done)
		case reading := <-a.measurer.Measured():
			a.measurer.Observe(reading)
		case <-wake:
			if rest := a.policy.Pacing.Min - a.options.Clock.Since(ticked); rest > 0 {
				wake = nil // not received until the tick: a storm of them must not spin here
				timer.Reset(rest)
				continue
			}
		case <-timer.C():
		}
		next := a.tick(ctx)
		ticked, wake = a.options.Clock.Now(), a.options.Wake
		timer.Reset(next)
	}
}

// drain waits for the request that is under way.
func (a *Agent) drain() {
	if a.acting != nil {
		a.takeReport(<-a.executor.Reports())
	}
	a.memory.SaveNow()
}

// tick reads the node once, judges, and acts or says why not. It returns the time
// until the next one.
func (a *Agent) tick(ctx context.Context) time.Duration {
	started := a.options.Clock.Now()
	a.covered = covered{}
	ended := a.updateVictims(ctx, started)
	sample, verdict := a.look()
	a.observe(sample, verdict, ended)
	if a.acting != nil {
		a.cancelWhenObsolete(ctx, a.acting, sample, verdict)
	} else {
		a.relieve(ctx, sample, verdict)
	}
	a.tellVictims(started, ended)
	a.memory.SaveChanged(a.victims.Len())
	if len(verdict.Pressures) == 0 {
		a.warmUp(started)
	}
	a.health.observe(started, sample, verdict)
	a.options.Recorder.Tick(started, a.options.Clock.Since(started))
	return min(a.pacer.Next(sample), a.covered.ends(a.pacer))
}

// updateVictims brings the list of victims up to date before the node is read, and returns those
// that have gone.
func (a *Agent) updateVictims(ctx context.Context, now time.Time) []inflight.Booking {
	ended := a.endVictims(now)
	a.reconcileInDoubt(now)
	a.victims.ReleasePermits()
	a.victims.Simulate(ctx, now)
	return ended
}

// look reads the node and judges it. The sample is without the would-be victims of a dry run.
func (a *Agent) look() (*pressure.Sample, *pressure.Verdict) {
	seen := a.options.Sampler.Sample(a.options.Clock.Now())
	sample := a.victims.Simulated().AddTo(&seen)
	verdict := a.judge.Judge(sample)
	a.followIncidents(sample, &verdict)
	a.options.Recorder.Sample(&seen, &verdict)
	return sample, &verdict
}

// observe lets all that remembers or follows the node's readings see this one.
func (a *Agent) observe(sample *pressure.Sample, verdict *pressure.Verdict, ended []inflight.Booking) {
	a.wantTaints(verdict)
	a.measurer.ObserveStalls(sample, a.policy.Thresholds, a.victims.Simulated().Has)
	a.measurer.ObserveSpace(sample, verdict, a.policy.Stabilization)
	a.victims.ObserveSpace(sample, ended, a.incidents.Any())
	for i := range verdict.Pressures {
		a.decisions.Follow(&verdict.Pressures[i], a.incidentOf(&verdict.Pressures[i]))
	}
	if len(verdict.Pressures) > 0 {
		a.memory.Changed(a.victims.ObserveLists(sample.Time))
	}
	a.memory.Changed(a.cooldown.ObserveStart(sample, verdict))
	a.memory.Changed(len(ended) > 0)
}

// endVictims ends what is known of pods that have gone, and returns the victims among them.
func (a *Agent) endVictims(now time.Time) []inflight.Booking {
	ended := a.victims.Begin(now)
	if a.options.Pods.Synced() {
		a.cooldown.Forget(a.victims.Present)
		a.options.Recorder.Ledger(now, a.victims.All())
		a.options.Recorder.LeftAlone(a.cooldown.Waiting(now))
	}
	return ended
}

// tellVictims reports what the end of each of these victims freed on the node.
func (a *Agent) tellVictims(now time.Time, ended []inflight.Booking) {
	sample := func() pressure.Sample { return a.options.Sampler.Sample(a.options.Clock.Now()) }
	for _, victim := range a.victims.ObserveReclaim(now, ended, sample) {
		a.options.Recorder.VictimEnded(&victim)
	}
}

// relieve deals with the pressures in order until one of them has sent a request. A
// verdict on a stale sample has none.
func (a *Agent) relieve(ctx context.Context, sample *pressure.Sample, verdict *pressure.Verdict) {
	dealt := [pressure.SignalCount]bool{}
	for _, p := range verdict.Pressures {
		if dealt[p.Threshold.Signal] {
			continue // its hard threshold holds too and comes first
		}
		dealt[p.Threshold.Signal] = true
		a.drawJitter(&p)
		s, plan, hold, detail := a.consider(ctx, sample, p)
		if noneLeft(&plan) {
			a.cooldown.Retry(p.Threshold.Signal)
		}
		if hold == decide.HoldReclaimInProgress {
			short := s.Shortage()
			a.covered.by(&p, &short)
		}
		if hold != decide.HoldNone {
			a.decisions.Hold(&plan.Decision, hold, detail)
			continue
		}
		a.act(ctx, plan)
		return
	}
}

// Alive returns an error when the loop has made no progress for too long.
func (a *Agent) Alive(now time.Time) error { return a.health.alive(now) }

// Ready returns an error until the node's pods are known and the last sample was
// complete, and while the list of the pods has grown too old.
func (a *Agent) Ready() error {
	if !a.options.Pods.Synced() {
		return errors.New("the node's pods are not known yet")
	}
	if err := a.podsStale(); err != nil {
		return fmt.Errorf("no pod is evicted: %w", err)
	}
	return a.health.ready()
}
