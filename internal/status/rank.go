package status

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Rank fills in Ranking for a signal, or Unranked: as a decision of the agent at that moment would
// order the pods, and protect those that are in flight, that back off, that are within their
// requests, or that are spared while no hard threshold of the signal is met.
func (d *Document) Rank(signal pressure.Signal) {
	order, err := d.order(signal)
	signal = rankedFor(signal)
	d.Ranking, d.Unranked = nil, ""
	if err != nil {
		d.Unranked = err.Error()
		return
	}
	s := d.signal(signal)
	d.Ranking = &Ranking{
		Node: d.NodeName, Time: d.Time, Signal: signal, Available: s.Available, Capacity: s.Capacity, Resource: order.Resource.String(),
		Candidates: entries(order.Candidates), Protected: entries(order.Protected),
	}
}

// Short returns the first signal under pressure; memory.available where there is none.
func (d *Document) Short() pressure.Signal {
	for i := range d.Signals {
		if s := &d.Signals[i]; s.held() != "" {
			return s.Name
		}
	}
	return pressure.MemoryAvailable
}

// rankedFor returns the signal whose order holds for one: no pod uses stall time.
func rankedFor(signal pressure.Signal) pressure.Signal {
	if signal == pressure.MemoryStall {
		return pressure.MemoryAvailable
	}
	return signal
}

// order returns the ranking for a signal with what led to it. An error says that it is not known what pods use.
func (d *Document) order(asked pressure.Signal) (rank.Ranking, error) {
	_, hard := d.hard(asked)
	signal := rankedFor(asked)
	read := func(p Pod) bool { return p.Usage != nil }
	switch {
	case signal.OnDisk() && d.DiskUnmeasured != "":
		return rank.Ranking{}, fmt.Errorf("measuring the pods' disk use: %s", d.DiskUnmeasured)
	case signal.OnDisk() && d.DiskMeasured.IsZero():
		return rank.Ranking{}, fmt.Errorf("the pods' disk use has not been measured yet; rank for memory.available or pid.available")
	case !signal.OnDisk() && d.UsageUnread != "" && !slices.ContainsFunc(d.Pods, read):
		return rank.Ranking{}, fmt.Errorf("reading the pods' cgroups: %s", d.UsageUnread)
	}
	rules := d.Configuration.Rules()
	order := rank.Order(decide.RankedBy(signal), d.Facts(signal), rules)
	p, _ := d.hard(signal)
	d.Configuration.Protect.WithinRequests.Withhold(&order, decide.RunsOut(&p, ptr.Deref(d.signal(signal).KubeletLine, 0)))
	if !hard {
		rules.Spare(&order, d.Time)
	}
	order.Withhold(d.backsOff)
	return order, nil
}

// Facts joins what the API server and the node know of each pod, as a decision does.
func (d *Document) Facts(signal pressure.Signal) []rank.Pod {
	s := decide.Situation{InFlight: d.InFlight, Uses: &decide.Uses{ByUID: make(map[string]decide.Use, len(d.Pods))}}
	s.Pressure.Threshold.Signal = signal
	for i := range d.Pods {
		p, use := &d.Pods[i], decide.Use{}
		switch {
		case signal.OnDisk():
			use.Value, use.Known = p.Disk.Of(signal)
		case p.Usage != nil:
			use = measure.CgroupUse(signal, d.Configuration.MemoryAvailable, p.Usage)
		}
		s.Pods, s.Uses.ByUID[p.UID] = append(s.Pods, &p.Pod), use
	}
	return s.Facts()
}

// signal returns the reading of a signal, which is not known where there is none.
func (d *Document) signal(signal pressure.Signal) *Signal {
	if at := slices.IndexFunc(d.Signals, func(s Signal) bool { return s.Name == signal }); at >= 0 {
		return &d.Signals[at]
	}
	return &Signal{Name: signal, State: pressure.Unknown.String()}
}

// hard returns the pressure of a signal by its last reading and its hard thresholds, and whether one is met.
func (d *Document) hard(signal pressure.Signal) (p pressure.Pressure, met bool) {
	thresholds, s := d.Configuration.Thresholds(), d.signal(signal)
	if s.Available == nil || s.Capacity == nil {
		return p, false // what is not known makes no candidate
	}
	p.Observed.Available = *s.Available
	for i := range thresholds {
		if t := &thresholds[i]; t.Hard && t.Signal == signal {
			p.Threshold.Hard, p.Line = true, max(p.Line, t.Quantity.Of(*s.Capacity))
		}
	}
	return p, p.Observed.Available < p.Line
}

// backsOff protects a pod whose eviction was refused, and says of one that its owner's limit keeps it.
func (d *Document) backsOff(e *rank.Entry) rank.Protection {
	for i := range d.BackOffs {
		b := &d.BackOffs[i]
		text := b.Why + ", until " + b.Until.UTC().Format(time.RFC3339)
		switch {
		case b.Of == OfPod && b.UID == e.Pod.UID:
			e.Detail = text
			return rank.ProtectedBackingOff
		case b.Of == OfOwner && b.UID == e.Pod.OwnerUID:
			e.Detail = "not evicted yet: " + text
		}
	}
	return rank.NotProtected
}

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
