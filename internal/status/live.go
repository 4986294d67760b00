package status

import (
	"cmp"
	"slices"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// What an agent's loop knows becomes a document by these. They keep nothing that is changed later.

// AddSignals adds the signals that have thresholds, as they were seen last, in the order of the signals. Gap
// is as in [decide.Policy.KubeletLine].
func (d *Document) AddSignals(seen *pressure.Sample, verdict *pressure.Verdict, policy *decide.Policy, gap func() int64) {
	for _, signal := range pressure.Signals() {
		now := seen.Of(signal)
		thresholds := thresholdsOf(policy.Thresholds, verdict, signal, now)
		if len(thresholds) == 0 || seen.Time.IsZero() {
			continue
		}
		s := Signal{Name: signal, State: now.State.String(), Under: verdict.Under[signal], Thresholds: thresholds}
		if now.State == pressure.Known {
			s.Available, s.Capacity = &now.Available, &now.Capacity
			if line := policy.KubeletLine(signal, now.Capacity, gap); line != 0 {
				s.KubeletLine = &line
			}
		}
		if now.Err != nil {
			s.Reason = now.Err.Error()
		}
		if f := verdict.Forecasts[signal]; f.Known && f.After != pressure.Never {
			s.ForecastSeconds = new(f.After.Seconds())
		}
		d.Signals = append(d.Signals, s)
	}
}

// thresholdsOf returns those of a signal and where they stand, hard before soft.
func thresholdsOf(all []pressure.Threshold, verdict *pressure.Verdict, signal pressure.Signal, now pressure.Observation) []Threshold {
	var thresholds []Threshold
	for i := range all {
		t := &all[i]
		if t.Signal != signal {
			continue
		}
		one := Threshold{Kind: t.Kind(), Written: cmp.Or(t.Written, t.Quantity.String()), GraceSeconds: t.Grace.Seconds()}
		if now.State == pressure.Known {
			one.Line = new(t.Quantity.Of(now.Capacity))
		}
		of := func(p pressure.Pressure) bool { return p.Threshold.Signal == signal && p.Threshold.Hard == t.Hard }
		if at := slices.IndexFunc(verdict.Waiting, of); at >= 0 {
			one.Since = verdict.Waiting[at].Since
		}
		if at := slices.IndexFunc(verdict.Pressures, of); at >= 0 {
			one.Since, one.Holds = verdict.Pressures[at].Since, true
		}
		thresholds = append(thresholds, one)
	}
	slices.SortStableFunc(thresholds, func(a, b Threshold) int { return cmp.Compare(a.Kind, b.Kind) })
	return thresholds
}

// AddPods adds the pods with what their cgroups say. Of those that have finished it leaves the most out. A
// cgroup that uses nothing does not show what its pod uses.
func (d *Document) AddPods(pods []*nodepods.Pod, read []usage.Pod, onDisk func(*nodepods.Pod) pressure.Amounts) {
	cgroups := make(map[string]*usage.Pod, len(read))
	for i := range read {
		cgroups[read[i].UID] = &read[i]
	}
	slices.SortFunc(pods, func(x, y *nodepods.Pod) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	finished := 0
	d.Pods = make([]Pod, 0, len(pods))
	for _, pod := range pods {
		if pod.Finished {
			finished++
		}
		if pod.Finished && finished > MostFinished {
			d.FinishedOmitted++
			continue
		}
		one := Pod{Pod: pod, Disk: onDisk(pod)}
		if u := cgroups[pod.CgroupUID]; u != nil && !u.Unused {
			one.read(*u)
		}
		d.Pods = append(d.Pods, one)
	}
}

// read takes what the pod's cgroup says.
func (p *Pod) read(u usage.Pod) {
	p.Memory = &Memory{WorkingSet: u.WorkingSet, Anonymous: u.Anonymous, Shared: u.Shared}
	if u.KernelKnown {
		p.Memory.Kernel = &u.Kernel
	}
	if u.TasksKnown {
		p.Tasks = &u.Tasks
	}
}

// AddVictims adds those that are in flight: what has really ended is not.
func (d *Document) AddVictims(victims []decide.Victim) {
	for i := range victims {
		v := &victims[i]
		one := Victim{Pod: v.Key(), UID: v.UID, DryRun: v.DryRun}
		switch {
		case v.Phase == decide.Requested:
			one.Signal, one.InDoubt, one.Since, one.Expected = v.Signal, true, v.Request.First, v.Expected
		case v.Phase != decide.Gone:
			one.Signal, one.Since, one.Deadline, one.Expected = v.Signal, v.Accepted, v.Deadline, v.Expected
		case v.DryRun:
			one.Ended = true
		default:
			continue
		}
		d.InFlight = append(d.InFlight, one)
	}
	slices.SortStableFunc(d.InFlight, func(a, b Victim) int { return a.Since.Compare(b.Since) })
}

// AddBackOffs adds what keeps requests for the pods of the document from being sent in a situation.
func (d *Document) AddBackOffs(s *decide.Situation) {
	seen := map[string]bool{}
	add := func(of, name, uid string) func(decide.Wait, bool) {
		return func(why decide.Wait, waits bool) {
			if waits && !seen[of+uid] {
				seen[of+uid] = true
				d.BackOffs = append(d.BackOffs, BackOff{Of: of, Name: name, UID: uid, Until: why.Until, Why: why.Detail})
			}
		}
	}
	now := s.Pressure.SampleTime
	add(OfServer, "", "")(s.Cooldown.Server(now))
	add(OfNode, "", "")(s.Cooldown.Node(now))
	for _, pod := range d.Pods {
		add(OfOwner, pod.Owner, pod.OwnerUID)(s.Cooldown.Owner(pod.OwnerUID, now))
		facts := pod.Facts(rank.Memory, s.Self)
		add(OfPod, pod.Key(), pod.UID)(s.Cooldown.Pod(s, &facts, false))
	}
}
