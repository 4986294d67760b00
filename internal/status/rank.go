package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Rank fills in Ranking for a signal, or Unranked: as a decision of the agent at that moment would
// order the pods, and protect those that are in flight, that back off, or that are within their
// requests.
func (d *Document) Rank(signal pressure.Signal) {
	d.Ranking, d.Unranked = nil, ""
	order, err := d.order(signal)
	if err != nil {
		d.Unranked = err.Error()
		return
	}
	d.Ranking = &Ranking{
		Node: d.NodeName, Time: d.Time, Signal: signal, Resource: order.Resource.String(),
		Candidates: entries(order.Candidates), Protected: entries(order.Protected),
	}
	if s := d.signal(signal); s != nil {
		d.Ranking.Available, d.Ranking.Capacity = s.Available, s.Capacity
	}
}

// order returns the ranking with what led to it. An error says that it is not known what pods use.
func (d *Document) order(signal pressure.Signal) (rank.Ranking, error) {
	read := func(p Pod) bool { return p.Memory != nil }
	switch {
	case signal.OnDisk() && d.DiskUnmeasured != "":
		return rank.Ranking{}, fmt.Errorf("measuring the pods' disk use: %s", d.DiskUnmeasured)
	case signal.OnDisk() && d.DiskMeasured.IsZero():
		return rank.Ranking{}, fmt.Errorf("the pods' disk use was not measured when this was saved; rank it for memory.available or pid.available")
	case !signal.OnDisk() && d.UsageUnread != "" && !slices.ContainsFunc(d.Pods, read):
		return rank.Ranking{}, fmt.Errorf("reading the pods' cgroups: %s", d.UsageUnread)
	}
	order := rank.Order(decide.RankedBy(signal), d.facts(signal), d.Configuration.Rules())
	decide.WithinRequests(d.Configuration.Protect.WithinRequests).Withhold(&order, d.runsOut(signal))
	order.Withhold(d.backsOff)
	return order, nil
}

// facts joins what the API server and the node know of each pod. One that is in flight is terminating:
// the watch may not report it yet, or never.
func (d *Document) facts(signal pressure.Signal) []rank.Pod {
	gone := make(map[string]bool, len(d.InFlight))
	for i := range d.InFlight {
		gone[d.InFlight[i].UID] = !d.InFlight[i].InDoubt
	}
	facts := make([]rank.Pod, 0, len(d.Pods))
	for i := range d.Pods {
		p := &d.Pods[i]
		f := p.Facts(decide.RankedBy(signal), d.Self)
		f.Usage, f.Sampled = p.use(signal, d.Configuration.MemoryDefinition())
		if p.Memory != nil && !signal.OnDisk() {
			f.WorkingSet, f.Reclaim = p.Memory.WorkingSet, p.Memory.reclaim()
		}
		f.Marks.Terminating = f.Marks.Terminating || gone[f.UID]
		facts = append(facts, f)
	}
	return facts
}

// use returns what a pod uses of a signal, in its unit; false where that is not known.
func (p *Pod) use(signal pressure.Signal, definition pressure.MemoryDefinition) (amount int64, known bool) {
	switch {
	case signal.OnDisk():
		return p.Disk.Of(signal)
	case signal.Kind() == pressure.PIDKind && p.Tasks != nil:
		return *p.Tasks, true
	case signal.Kind() == pressure.PIDKind || p.Memory == nil:
		return 0, false
	case signal.CountsWorkingSet(definition):
		return p.Memory.WorkingSet, true
	default:
		return p.Memory.reclaim(), true
	}
}

// reclaim is what the pod's end adds to MemAvailable, in bytes.
func (m *Memory) reclaim() int64 {
	if m.Kernel == nil {
		return m.Anonymous + m.Shared
	}
	return m.Anonymous + m.Shared + *m.Kernel
}

// signal returns the reading of a signal; nil where there is none.
func (d *Document) signal(signal pressure.Signal) *Signal {
	if at := slices.IndexFunc(d.Signals, func(s Signal) bool { return s.Name == signal }); at >= 0 {
		return &d.Signals[at]
	}
	return nil
}

// runsOut reports whether the node is near exhaustion of a signal by its last reading.
func (d *Document) runsOut(signal pressure.Signal) bool {
	thresholds, err := d.Configuration.Thresholds()
	s := d.signal(signal)
	if err != nil || s == nil || s.Available == nil || s.Capacity == nil {
		return false // what is not known makes no candidate
	}
	p, kubelets := pressure.Pressure{Observed: pressure.Observation{Available: *s.Available}}, int64(0)
	if s.KubeletLine != nil {
		kubelets = *s.KubeletLine
	}
	for i := range thresholds {
		if t := &thresholds[i]; t.Hard && t.Signal == signal {
			p.Threshold.Hard, p.Line = true, max(p.Line, t.Quantity.Of(*s.Capacity))
		}
	}
	return decide.RunsOut(&p, kubelets)
}

// backsOff protects a pod whose eviction was refused, and says of one that its owner's limit keeps it.
func (d *Document) backsOff(e *rank.Entry) rank.Protection {
	if b := d.backOff(OfPod, e.Pod.UID); b != nil {
		e.Detail = b.text()
		return rank.ProtectedBackingOff
	}
	if b := d.backOff(OfOwner, e.Pod.OwnerUID); b != nil {
		e.Detail = strings.TrimPrefix(e.Detail+"; not evicted yet: "+b.text(), "; ")
	}
	return rank.NotProtected
}

// backOff returns what a pod or an owner waits for; nil where it does not.
func (d *Document) backOff(of, uid string) *BackOff {
	for i := range d.BackOffs {
		if b := &d.BackOffs[i]; b.Of == of && b.UID == uid && uid != "" && b.Until.After(d.Time) {
			return b
		}
	}
	return nil
}

func (b *BackOff) text() string { return b.Why + ", until " + b.Until.UTC().Format(time.RFC3339) }

// entries returns what is said of ranked pods.
func entries(ranked []rank.Entry) []Entry {
	all := make([]Entry, 0, len(ranked))
	for i := range ranked {
		e := &ranked[i]
		one := Entry{
			Rank: e.Position, Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID,
			Owner: e.Pod.Owner, Priority: e.Pod.Priority, Queue: e.Queue(), Effective: e.EffectivePriority(),
			Request: e.Pod.Request, Exceeds: e.Exceeds, Grace: e.Pod.GraceSeconds,
			Protection: string(e.Protection), Reason: e.Why(),
		}
		if e.Pod.Sampled {
			one.Usage, one.Over = &e.Pod.Usage, &e.Over
			if e.Resource == rank.Memory {
				one.WorkingSet, one.Reclaim = &e.Pod.WorkingSet, &e.Pod.Reclaim
			}
		}
		all = append(all, one)
	}
	return all
}
