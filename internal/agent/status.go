package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// statusEvery is how often the pods are read for documents at most: for 110 pods that takes the loop two
// milliseconds, and every client that reaches the node's address can ask.
const statusEvery = time.Second

// statusAsk asks the loop for a document.
type statusAsk struct {
	disk   bool // with a fresh measurement of the disks
	answer chan<- *status.Document
}

// documents are what the loop needs to answer: it makes a document between two ticks, and only when one
// is asked for.
type documents struct {
	asks    chan statusAsk
	waiting []statusAsk
	last    *status.Document // not changed any more; nil before the first
	disk    time.Time        // of the measurement in it
	// looked is when the last tick began, and what it saw: its slices are the judge's, until the next
	// tick.
	looked  time.Time
	sample  pressure.Sample
	verdict pressure.Verdict
}

// see notes what a tick saw. It allocates nothing.
func (d *documents) see(started time.Time, sample *pressure.Sample, verdict *pressure.Verdict) {
	d.looked, d.sample = started, *sample
	if !verdict.Stale {
		d.verdict = *verdict
	}
}

// Status returns what the loop knows, without what belongs to the program: the version, the node's name,
// the configuration, the decisions and what is made of all these. With disk the pods' disk use is
// measured where that was not done a moment ago. An error says that the loop did not answer in time.
func (a *Agent) Status(ctx context.Context, disk bool) (*status.Document, error) {
	answer := make(chan *status.Document, 1) // the loop never waits for a reader
	select {
	case a.documents.asks <- statusAsk{disk, answer}:
	case <-ctx.Done():
		return nil, fmt.Errorf("asking evictd's loop: %w", context.Cause(ctx))
	}
	select {
	case made := <-answer:
		own := *made
		return &own, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for evictd's loop: %w", context.Cause(ctx))
	}
}

// answerAsks answers all but those that wait for a measurement of the disks.
func (a *Agent) answerAsks(ctx context.Context) {
	if len(a.documents.waiting) == 0 {
		return
	}
	now := a.options.Clock.Now()
	a.documents.waiting = slices.DeleteFunc(a.documents.waiting, func(ask statusAsk) bool {
		if ask.disk && a.awaitsDisk(ctx, now) {
			return false
		}
		ask.answer <- a.document(now)
		return true
	})
}

// awaitsDisk requests a measurement of the disks where there is no fresh one by the policy in force.
func (a *Agent) awaitsDisk(ctx context.Context, now time.Time) bool {
	measured := a.measurer.LastDisk().At
	if a.options.Disk == nil || now.Sub(measured) < decide.DiskMaxAge && measured.After(a.watched) {
		return false
	}
	a.measurer.RefreshDisk(ctx, now, a.options.Pods.List(), 0)
	return true
}

// document returns what is known now, or what was less than a second ago.
func (a *Agent) document(now time.Time) *status.Document {
	disk := a.measurer.LastDisk()
	if last := a.documents.last; last != nil && now.Sub(last.Time) < statusEvery && a.documents.disk.Equal(disk.At) {
		return last
	}
	d := &status.Document{Time: now.UTC(), LastTick: a.documents.looked.UTC(), Self: a.options.Self, Enforcement: a.enforcement()}
	a.addSignals(d)
	a.addPods(d, &disk)
	a.addVictims(d)
	a.addBackOffs(d)
	a.documents.last, a.documents.disk = d, disk.At
	return d
}

func (a *Agent) enforcement() status.Enforcement {
	if !a.policy.DryRun {
		return status.Enforcement{On: true}
	}
	return status.Enforcement{Reason: cmp.Or(string(a.acts.Reason), "Configured"), Why: a.policy.DryRunWhy}
}

// addSignals adds the signals that have thresholds, in the order of the signals.
func (a *Agent) addSignals(d *status.Document) {
	seen := &a.documents.sample
	for _, signal := range pressure.Signals() {
		lines := a.linesOf(signal, seen.Of(signal))
		if len(lines) == 0 || seen.Time.IsZero() {
			continue
		}
		now := seen.Of(signal)
		s := status.Signal{Name: signal, State: now.State.String(), Under: a.documents.verdict.Under[signal], Thresholds: lines}
		if now.State == pressure.Known {
			s.Available, s.Capacity = &now.Available, &now.Capacity
			if line := a.kubeletLine(signal, now.Capacity, d.Time); line > 0 {
				s.KubeletLine = &line
			}
		}
		if now.Err != nil {
			s.Reason = now.Err.Error()
		}
		if f := a.documents.verdict.Forecasts[signal]; f.Known && f.After != pressure.Never {
			seconds := f.After.Seconds()
			s.ForecastSeconds = &seconds
		}
		d.Signals = append(d.Signals, s)
	}
}

// linesOf returns the thresholds of a signal and where they stand, hard before soft.
func (a *Agent) linesOf(signal pressure.Signal, now pressure.Observation) []status.Threshold {
	var lines []status.Threshold
	for i := range a.policy.Thresholds {
		t := &a.policy.Thresholds[i]
		if t.Signal != signal {
			continue
		}
		line := status.Threshold{Kind: t.Kind(), Written: cmp.Or(t.Written, t.Quantity.String()), GraceSeconds: t.Grace.Seconds()}
		if now.State == pressure.Known {
			at := t.Quantity.Of(now.Capacity)
			line.Line = &at
		}
		is := func(p pressure.Pressure) bool { return p.Threshold.Signal == signal && p.Threshold.Hard == t.Hard }
		verdict := &a.documents.verdict
		if at := slices.IndexFunc(verdict.Waiting, is); at >= 0 {
			line.Since = verdict.Waiting[at].Since
		}
		if at := slices.IndexFunc(verdict.Pressures, is); at >= 0 {
			line.Since, line.Holds = verdict.Pressures[at].Since, true
		}
		lines = append(lines, line)
	}
	slices.SortStableFunc(lines, func(a, b status.Threshold) int { return cmp.Compare(a.Kind, b.Kind) })
	return lines
}

// kubeletLine returns where the kubelet evicts, in evictd's measure; 0 where that is not known.
func (a *Agent) kubeletLine(signal pressure.Signal, capacity int64, now time.Time) int64 {
	gap := int64(0)
	if signal == pressure.MemoryAvailable && a.options.KubeletGap != nil && len(a.policy.KubeletHard) > 0 {
		gap = a.options.KubeletGap(now)
	}
	return a.policy.KubeletLine(signal, capacity, gap)
}

// addPods adds the pods with what they use, read now. Of those that have finished it leaves the most out.
func (a *Agent) addPods(d *status.Document, disk *measure.Reading) {
	if !a.options.Pods.Synced() {
		d.PodsUnknown = "the API server has not sent the node's pods yet"
	} else if err := a.options.Pods.Stale(); err != nil {
		d.PodsUnknown = err.Error()
	}
	if disk.Err != nil {
		d.DiskUnmeasured = disk.Err.Error()
	} else {
		d.DiskMeasured = disk.At
	}
	pods := a.options.Pods.List()
	slices.SortFunc(pods, func(x, y *nodepods.Pod) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	used, finished := a.used(d), 0
	d.Pods = make([]status.Pod, 0, len(pods))
	for _, pod := range pods {
		if pod.Finished {
			finished++
		}
		if pod.Finished && finished > status.MostFinished {
			d.FinishedOmitted++
			continue
		}
		one := used[pod.CgroupUID]
		one.Pod = pod
		one.Disk, _ = a.measurer.LastOnDisk(pod.UID, pod.CgroupUID)
		d.Pods = append(d.Pods, one)
	}
}

// used returns what the pods' cgroups say now, by the UID in their names. A cgroup that uses nothing does
// not show what its pod uses.
func (a *Agent) used(d *status.Document) map[string]status.Pod {
	read, err := a.measurer.Collect()
	if err != nil {
		d.UsageUnread = err.Error()
	}
	used := make(map[string]status.Pod, len(read))
	for i := range read {
		u := read[i] // the next reading writes over it
		if u.Unused {
			continue
		}
		one := status.Pod{Memory: &status.Memory{WorkingSet: u.WorkingSet, Anonymous: u.Anonymous, Shared: u.Shared}}
		if u.KernelKnown {
			one.Memory.Kernel = &u.Kernel
		}
		if u.TasksKnown {
			one.Tasks = &u.Tasks
		}
		used[u.UID] = one
	}
	return used
}

// addVictims adds the pods in flight.
func (a *Agent) addVictims(d *status.Document) {
	for _, b := range a.victims.All() {
		d.InFlight = append(d.InFlight, status.Victim{
			Pod: b.Key(), UID: b.UID, Signal: b.Signal, DryRun: b.DryRun,
			Since: b.Accepted, Deadline: b.Deadline, Expected: b.Expected,
		})
	}
	for _, i := range a.incidents.Open() {
		if open, _ := a.victims.Doubts(i.Resource, d.Time); open != nil {
			d.InFlight = append(d.InFlight, status.Victim{
				Pod: open.Attempt.Entry.Pod.Key(), UID: open.UID(), Signal: i.Signal.String(), InDoubt: true,
				Since: open.First, Expected: open.Expected,
			})
		}
	}
	for _, pod := range d.Pods {
		if a.victims.Simulated(pod.UID) {
			d.InFlight = append(d.InFlight, status.Victim{Pod: pod.Key(), UID: pod.UID, DryRun: true, Ended: true})
		}
	}
}

// addBackOffs adds what keeps requests from being sent, for the first pressure where there is one.
func (a *Agent) addBackOffs(d *status.Document) {
	c, in := a.cooldown, &decide.Situation{}
	if pressures := a.documents.verdict.Pressures; len(pressures) > 0 {
		in.Pressure, in.Incident = pressures[0], a.incidentOf(&pressures[0])
	}
	in.Pressure.SampleTime = d.Time
	seen := map[string]bool{}
	add := func(of, name, uid string, why decide.Wait, waits bool) {
		if key := of + uid; waits && !seen[key] {
			seen[key] = true
			d.BackOffs = append(d.BackOffs, status.BackOff{Of: of, Name: name, UID: uid, Until: why.Until, Why: why.Detail})
		}
	}
	why, waits := c.Server(d.Time)
	add(status.OfServer, "", "", why, waits)
	why, waits = c.Node(d.Time)
	add(status.OfNode, "", "", why, waits)
	for _, pod := range d.Pods {
		why, waits = c.Owner(pod.OwnerUID, d.Time)
		add(status.OfOwner, pod.Owner, pod.OwnerUID, why, waits)
		facts := pod.Facts(rank.Memory, a.options.Self)
		why, waits = c.Pod(in, &facts, false)
		add(status.OfPod, pod.Key(), pod.UID, why, waits)
	}
}
