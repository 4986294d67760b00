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
		s := Signal{Name: signal, State: now.State.String(), Device: now.Device, Under: verdict.Under[signal], Thresholds: thresholds}
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

// thresholdsOf returns those of a signal and where they stand, in their order.
func thresholdsOf(all []pressure.Threshold, verdict *pressure.Verdict, signal pressure.Signal, now pressure.Observation) []Threshold {
	var thresholds []Threshold
	for i := range all {
		t := &all[i]
		if t.Signal != signal {
			continue
		}
		one := Threshold{Kind: t.Kind()}
		if now.State == pressure.Known {
			one.Line = new(t.Quantity.Of(now.Capacity))
		}
		for n, p := range slices.Concat(verdict.Waiting, verdict.Pressures) {
			if p.Threshold == *t {
				one.Since, one.Holds = p.Since, n >= len(verdict.Waiting)
			}
		}
		thresholds = append(thresholds, one)
	}
	return thresholds
}

// AddPods adds the pods that have not finished, with what their cgroups say.
func (d *Document) AddPods(pods []*nodepods.Pod, read []usage.Pod, onDisk func(cgroupUID string) pressure.Amounts) {
	cgroups := make(map[string]*usage.Pod, len(read))
	read = slices.Clone(read) // the reader fills its own again
	for i := range read {
		cgroups[read[i].UID] = &read[i]
	}
	d.Pods = make([]Pod, 0, len(pods))
	for _, pod := range pods {
		if !pod.Finished { // there may be thousands, and none is a candidate
			d.Pods = append(d.Pods, Pod{Pod: *pod, Usage: cgroups[pod.CgroupUID], Disk: onDisk(pod.CgroupUID)})
		}
	}
	slices.SortFunc(d.Pods, func(x, y Pod) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
}

// AddVictims adds those that are in flight, without the requests in doubt: such a one counts since its first.
func (d *Document) AddVictims(victims []decide.Victim) {
	for _, v := range victims {
		if v.Request != nil {
			v.Accepted, v.Request = v.Request.First, nil
		}
		d.InFlight = append(d.InFlight, v)
	}
	slices.SortStableFunc(d.InFlight, func(a, b decide.Victim) int { return a.Accepted.Compare(b.Accepted) })
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
	for i := range d.Pods {
		pod := &d.Pods[i]
		facts := pod.Facts(rank.Memory)
		add(OfOwner, pod.Owner, pod.OwnerUID)(s.Cooldown.Owner(s, &facts))
		add(OfPod, pod.Key(), pod.UID)(s.Cooldown.Pod(s, &facts, false))
	}
}
