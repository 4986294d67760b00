package decide

import (
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Cooldown answers which pods may not be evicted for now, until when and why. Its answers change
// nothing; see [cooldown.Tracker].
type Cooldown interface {
	Node(now time.Time) (cooldown.Reason, bool)
	Owner(owner string, now time.Time) (cooldown.Reason, bool)
	Server(now time.Time) (cooldown.Reason, bool)
	Jitter(in cooldown.Pressure, now time.Time) (cooldown.Reason, bool)
	Bypass(now time.Time) (cooldown.Reason, bool)
	Pod(pod *rank.Pod, in cooldown.Pressure, now time.Time) (cooldown.Reason, bool)
	SharedPDB(pod *rank.Pod, now time.Time) string
}

// Situation is all that is known when a pressure is dealt with.
type Situation struct {
	// Pressure is what the node is short of, by Sample.
	Pressure pressure.Pressure
	Sample   *pressure.Sample
	// Incident is the ID of the shortage; "" where there is none.
	Incident string
	// Met is when the threshold was first met in that incident: what others are ending counts from then.
	Met    time.Time
	Policy *Policy
	Self   nodepods.Self

	// Pods are those of the node. Unsynced says that the list is not complete, Stale why it
	// cannot be relied on any more; nil where it can.
	Pods     []*nodepods.Pod
	Unsynced bool
	Stale    error

	// InFlight are the pods in flight, the oldest first. LastEnd is when one ended last from
	// whose end on the signal must be read anew, ReachBack how far back its reading reaches.
	InFlight  []Victim
	LastEnd   time.Time
	ReachBack time.Duration
	// WouldBe reports whether a pod counts as ended in a dry run, and Simulated how much of what is
	// available counts as reclaimed from such pods, in the signal's unit.
	WouldBe   func(uid string) bool
	Simulated int64
	// InDoubt is the request for the same resource whose outcome is not known, nil where there
	// is none. Others are those for other resources whose pods may be terminating because of them.
	InDoubt *InDoubt
	Others  []InDoubt

	Cooldown Cooldown
	// UnknownUntil is until when a victim may be in flight of which nothing is known; the zero time
	// where all is known.
	UnknownUntil time.Time
	// KubeletGap is how much less memory.available is by the kubelet's definition than by the
	// kernel's, in bytes; 0 where that is not known.
	KubeletGap int64

	// Uses is what the pods use; nil while they have not been measured for this decision.
	Uses *Uses
	// Breakdown says where what is used is; nil where that is not known.
	Breakdown Breakdown
	// Images says why unused images are waited for, and Note what else is to be known of them.
	Images ImagesFirst
}

// ImagesFirst says why a decision waits until the kubelet has removed unused images. The zero
// value does not wait.
type ImagesFirst struct {
	Hold   Hold
	Detail string
	// Note says what is to be known where it does not wait; "" is nothing.
	Note string
}

// Resource returns what the node is short of.
func (s *Situation) Resource() Resource {
	return ResourceOf(s.Pressure.Threshold.Signal, s.Pressure.Observed)
}

// Shortage returns the figures of the pressure with what is relied on.
func (s *Situation) Shortage() Shortage {
	expected, _ := s.reliedOn(&s.Pressure)
	return ShortageOf(&s.Pressure, expected)
}

// Required is [Shortage.Required] of the pressure with what is relied on.
func (s *Situation) Required() int64 {
	short := s.Shortage()
	return short.Required(s.Pressure.Threshold.Signal)
}

// waitsIn is [CooldownOf] the pressure.
func (s *Situation) waitsIn() cooldown.Pressure { return CooldownOf(&s.Pressure, s.Incident) }

// CooldownOf returns what the cooldown needs to know of a pressure. ID is that of its incident.
func CooldownOf(p *pressure.Pressure, id string) cooldown.Pressure {
	return cooldown.Pressure{
		Signal: p.Threshold.Signal, Incident: id, Hard: p.Threshold.Hard,
	}
}

// newPlan begins the record of the decision, and how it would be carried out.
func (s *Situation) newPlan() Plan {
	return Plan{
		GraceCap: s.Policy.graceCap(s.Pressure.Threshold.Hard), Taint: s.Policy.TaintNode,
		Decision: Decision{
			Incident: s.Incident, Time: s.Pressure.SampleTime, Pressure: s.Pressure, DryRun: s.Policy.DryRun, DryRunWhy: s.Policy.DryRunWhy,
			Simulated: s.Simulated, InFlight: s.InFlight,
		},
	}
}

// Facts joins what the API server and the node report of each pod. A pod that is in flight, or
// counts as ended, is terminating: the watch may not report it yet, or never.
func (s *Situation) Facts() []rank.Pod {
	gone := make(map[string]bool, len(s.InFlight))
	for i := range s.InFlight {
		gone[s.InFlight[i].UID] = true
	}
	facts := s.Uses.Facts(s.Pressure.Threshold.Signal, s.Pods, s.Self)
	for i := range facts {
		if uid := facts[i].UID; gone[uid] || s.WouldBe != nil && s.WouldBe(uid) {
			facts[i].Marks.Terminating = true
		}
	}
	return facts
}
