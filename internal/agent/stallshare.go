package agent

import (
	"maps"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// How much of a stall a pod's end will end is not known. While a victim of evictd's holds
// memory it is waited for, and its end makes the window be measured anew. So are pods that
// others end, but only where they hold a share that matters beside the first candidate: on a
// node of short jobs one ends at any time, and a tenant that makes and deletes small pods
// must not be able to hold evictions back.

// stallShare is the part of what the first candidate holds that a pod must hold for its end
// to matter to a stall, where evictd did not evict it.
const stallShare = 10

// stallShareOf returns what such a pod must hold, in bytes; 0 for other signals, and where
// there is no candidate.
func (a *Agent) stallShareOf(p *pressure.Pressure, pods []*nodepods.Pod, uses *decide.Uses) int64 {
	if p.Threshold.Signal != pressure.MemoryStall {
		return 0
	}
	ranking := rank.Order(decide.RankedBy(p.Threshold.Signal), a.facts(p, pods, uses), a.policy.Rules)
	if len(ranking.Candidates) == 0 {
		return 0
	}
	first := uses.ByUID[ranking.Candidates[0].Pod.UID]
	return first.Expected.At(pressure.MemoryAvailable) / stallShare
}

// weigh returns what is expected of a pod that others end: nothing of a stall, where it holds
// less than the share.
func (a *Agent) weigh(b inflight.Booking, share int64) inflight.Booking {
	if share == 0 || a.victims.Own(b.UID) {
		return b
	}
	if b.Expected.At(pressure.MemoryAvailable) >= share {
		a.stalls.matters[b.UID] = true
		return b
	}
	b.Expected = b.Expected.With(pressure.MemoryStall, 0)
	return b
}

// stallEnds are the ends that make a stall's window be measured anew: matters are booked pods
// that others end and that hold a share that matters, by UID; ended is when one of those, or a
// victim of evictd's, ended last.
type stallEnds struct {
	matters map[string]bool
	ended   time.Time
}

// noteEnds notes when a victim ended last whose end makes the window be measured anew.
func (s *stallEnds) noteEnds(ended []inflight.Booking, now time.Time) {
	for i := range ended {
		if uid := ended[i].UID; ended[i].Signal != "" || s.matters[uid] {
			s.ended = now
		}
	}
}

// keep forgets the pods that mattered and are not booked any more, whether they have ended or
// nobody ends them after all.
func (s *stallEnds) keep(booked func(uid string) bool) {
	maps.DeleteFunc(s.matters, func(uid string, _ bool) bool { return !booked(uid) })
}

// lastEnd returns when the victim ended last from whose end on a signal must be read anew;
// the zero time when none has.
func (a *Agent) lastEnd(signal pressure.Signal) time.Time {
	if signal == pressure.MemoryStall {
		return a.stalls.ended
	}
	return a.victims.LastEnd()
}
