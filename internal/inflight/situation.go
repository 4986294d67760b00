package inflight

import (
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// Into adds to a situation what is in flight, in doubt and simulated.
func (t *Tracker) Into(s *decide.Situation) {
	signal := s.Pressure.Threshold.Signal
	s.LastEnd, s.UnknownUntil = t.lastEnd, t.unknown.Add(decide.ReturnsWithin(signal))
	s.WouldBe, s.Simulated = t.Simulated, t.simulatedAmount(signal)
	s.InDoubt, s.Others = t.doubts(decide.ResourceOf(&s.Pressure), s.Pressure.SampleTime)
	s.InFlight = t.inFlight(s)
}

// inFlight returns what is in flight as a situation's pressure sees it, the oldest first, and what has
// ended last. Once it was measured what the pods use, what others are ending is among it: by hand, by a
// controller, by the kubelet, or by evictd before it was started again. So no pod is evicted twice for one
// deficit. That counts by one clock for the incident, from the moment the threshold was first met in it or evictd's
// last victim ended. After that only evictd's own victims count: pods that end one after the other, or never, must
// not hold a node.
func (t *Tracker) inFlight(s *decide.Situation) []decide.Victim {
	p, all, since := &s.Pressure, t.All(), s.Met
	if t.lastEnd.After(since) {
		since = t.lastEnd
	}
	until := since.Add(decide.HardPatience)
	for i := range all {
		if v := &all[i]; v.Signal == "" && v.Deadline.After(until) {
			v.Deadline = until
		}
	}
	all = append(all, t.returning(p)...)
	if s.Uses == nil || p.SampleTime.After(until) {
		return all
	}
	return append(all, t.others(s, until, all)...)
}

// Measured takes what the victims should still free, by what the pods use, and adds to the situation what is in
// flight by that.
func (t *Tracker) Measured(s *decide.Situation) {
	for _, v := range t.victims {
		if holds, known := t.holds(v.UID, s); known && v.Phase == decide.Terminating {
			t.expect(v, holds)
		}
	}
	s.InFlight = t.inFlight(s)
}

// holds returns what the end of a pod should still free; false where that is not known. A pod
// without a cgroup has freed its memory and tasks already, although the API server may list it a
// little longer.
func (t *Tracker) holds(uid string, s *decide.Situation) (pressure.Amounts, bool) {
	use, is := s.Uses.Unlisted[uid]
	if !is {
		use, is = s.Uses.ByUID[uid]
	}
	pod := t.pod(uid)
	if is || pod == nil || s.Pressure.Threshold.Signal.OnDisk() {
		return use.Expected, is
	}
	var none pressure.Amounts
	if there, known := t.measurer.Present(pod.CgroupUID); there || !known {
		return none, false
	}
	for _, signal := range pressure.Signals() {
		if !signal.OnDisk() {
			none = none.With(signal, 0)
		}
	}
	return none, true
}

// others returns what others are ending that holds some of the signal, by UID, without what is counted
// already. It counts to until. A pod whose request is in doubt is evictd's own, and is booked as that once its
// end is known.
func (t *Tracker) others(s *decide.Situation, until time.Time, counted []decide.Victim) []decide.Victim {
	var others []decide.Victim
	holds := func(uid string, use decide.Use) bool {
		return use.Expected.At(s.Pressure.Threshold.Signal) > 0 && !slices.ContainsFunc(counted, func(v decide.Victim) bool { return v.UID == uid })
	}
	add := func(v decide.Victim, use decide.Use) {
		v.Phase, v.Expected, v.Accepted, v.Deadline = decide.Terminating, use.Expected, until.Add(-decide.HardPatience), until
		others = append(others, v)
	}
	for _, pod := range s.Pods {
		use := s.Uses.ByUID[pod.UID]
		if use.Known && holds(pod.UID, use) && t.find(decide.Requested, pod.UID) == nil && t.leaves(pod) {
			add(decide.Victim{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, use)
		}
	}
	for uid, use := range s.Uses.Unlisted {
		if holds(uid, use) {
			add(decide.Victim{UID: uid}, use)
		}
	}
	slices.SortFunc(others, func(a, b decide.Victim) int { return strings.Compare(a.UID, b.UID) })
	return others
}
