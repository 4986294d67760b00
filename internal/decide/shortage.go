package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// One formula says which candidates may be evicted for what is short: docs/adr/0036-one-formula-of-a-shortage.md.

// relief is for how long the ends of pods must make up for what is being used up, and ending for how
// long a victim needs to end.
const (
	relief = 30 * time.Second
	ending = 5 * time.Second
)

// Shortage are the figures of what a pressure is short of, in the signal's unit. None is
// negative.
type Shortage struct {
	// ToLine is missing to the threshold's line, by the reading alone.
	ToLine int64
	// InFlight is what the victims that are relied on should still free.
	InFlight int64
	// Missing is what is still missing to the target, the line plus the minimum reclaim, beside what is
	// in flight, and MissingToLine what is still missing to the line.
	Missing, MissingToLine int64
	// Needed is what is missing, and what is used up within [relief] besides, at the rate that is
	// certain by the last seconds. Meanwhile is what is used up within [ending].
	Needed, Meanwhile int64
}

// ShortageOf returns the figures of a pressure, with so much in flight.
func ShortageOf(p *pressure.Pressure, inFlight int64) Shortage {
	s := Shortage{ToLine: max(0, p.Line-p.Observed.Available), InFlight: max(0, inFlight)}
	s.Missing = max(0, p.Target-p.Observed.Available-s.InFlight)
	s.MissingToLine = max(0, p.Line-p.Observed.Available-s.InFlight)
	s.Needed, s.Meanwhile = s.Missing+usedUp(p, relief), usedUp(p, ending)
	return s
}

// usedUp returns how much of the signal is used up within so long; 0 where that is not known, or it does
// not fall. A disk that is full by then is judged by what is missing: the pod that fills it may hold less
// than it writes in that time.
func usedUp(p *pressure.Pressure, within time.Duration) int64 {
	f := &p.Forecast
	if !f.Known || f.Rate <= 0 || p.Threshold.Signal.OnDisk() && TooLate(p, 0) {
		return 0
	}
	return int64(f.Rate * within.Seconds())
}

// Required returns what the candidates must be able to free together: what reaches the threshold, and what
// is used up while they end, so that no pod goes beside another use that takes at once what it frees. A
// disk that is full ends no process, and one that the host fills must not cost one pod after the other.
// So for a disk it is all that is needed.
func (s *Shortage) Required(signal pressure.Signal) int64 {
	if signal.OnDisk() {
		return s.Needed
	}
	return s.MissingToLine + s.Meanwhile
}

// Margin returns by how much more is in flight than reaches the threshold, in the signal's unit.
func (s *Shortage) Margin() int64 { return max(0, s.InFlight-s.ToLine) }

// anyHelps reports whether a pod is evicted although all together may not suffice: near exhaustion, where
// the kernel or the kubelet would end one.
func (s *Situation) anyHelps() bool {
	left := s.remainder()
	return left.RunsOut() && !s.Pressure.Threshold.Signal.OnDisk()
}

// Covered reports whether a pod may be evicted, by what the ends of the candidates free together, and
// whether those that exceed their requests do. Over are these; within are the others, which are there only
// near exhaustion.
func (s *Shortage) Covered(signal pressure.Signal, over, within []Reclaim, anyHelps bool) (covered, byExceeding bool) {
	byExceeding = Suffice(s.Needed, over)
	return byExceeding || anyHelps || Suffice(s.Required(signal), slices.Concat(over, within)), byExceeding
}

// sufficient withholds the candidates that may not be evicted for what is short, by what all of them free
// together. A limit holds: a pod whose owner has reached it counts among those over their requests, and no
// pod within its request goes in its place.
func sufficient(s *Situation, d *Decision) (Hold, string) {
	signal, short := s.Pressure.Threshold.Signal, s.Shortage()
	over, within, limited := s.supply(d)
	covered, byExceeding := short.Covered(signal, over, within, s.anyHelps())
	switch {
	case len(within) == 0:
	case byExceeding || limited.exceeds:
		s.Policy.WithinRequests.Withhold(&d.Ranking, false)
	case covered:
		s.withholdSmall(d, short.Required(signal))
	}
	switch {
	case limited.count > 0 && (!covered || limited.count == len(d.Ranking.Candidates)):
		return HoldLimitReached, limited.say()
	case !covered && len(s.Uses.Incomplete) > 0:
		return HoldUsageUnknown, s.Uses.NotKnownToSuffice(signal, short.Required(signal))
	case !covered:
		return HoldInsufficientReclaim, insufficient(d, &short, slices.Concat(over, within))
	case limited.count > 0:
		d.Notes = append(d.Notes, "no request is sent for "+limited.say())
	}
	return HoldNone, ""
}

// withholdSmall withholds the candidates that free too little, where pods within their requests go: those
// whose end is not needed beside the others of the first that reach the threshold together. Where the
// candidates do not reach it, or it is not known, any may help.
func (s *Situation) withholdSmall(d *Decision, required int64) {
	first, freed := 0, int64(0)
	reclaims := make(map[string]int64, len(d.Ranking.Candidates))
	for ; freed < required && first < len(d.Ranking.Candidates); first++ {
		uid := d.Ranking.Candidates[first].Pod.UID
		reclaim := s.Uses.reclaim(s.Pressure.Threshold.Signal, uid)
		if !reclaim.Known {
			return
		}
		reclaims[uid], freed = reclaim.Amount, freed+reclaim.Amount
	}
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		reclaim, among := reclaims[e.Pod.UID]
		if !among || freed-reclaim < required {
			return rank.NotProtected
		}
		freed -= reclaim
		return rank.ProtectedReclaimTooSmall
	})
}

// limited are the candidates whose owner has reached its limit: how many, whether one exceeds its request,
// and the last of them.
type limited struct {
	count   int
	exceeds bool
	last    string
}

func (l *limited) say() string {
	return fmt.Sprintf("%d candidates of owners that reached limits.perOwnerPerHour; %s", l.count, l.last)
}

// supply returns what the ends of the candidates should free. For a disk those that a limit keeps do not
// count: the others would go for nothing.
func (s *Situation) supply(d *Decision) (over, within []Reclaim, kept limited) {
	signal, all := s.Pressure.Threshold.Signal, s.Policy.WithinRequests == WithinRequestsNever || d.Ranking.Resource == rank.PIDs
	for i := range d.Ranking.Candidates {
		e := &d.Ranking.Candidates[i]
		reclaim := s.Uses.reclaim(signal, e.Pod.UID)
		reason, waits := s.limited(e)
		if waits {
			kept = limited{kept.count + 1, kept.exceeds || e.Exceeds, e.Pod.Key() + ": " + reason.Detail}
		}
		switch {
		case waits && signal.OnDisk():
		case e.Exceeds || all:
			over = append(over, reclaim)
		default:
			within = append(within, reclaim)
		}
	}
	return over, within, kept
}

// insufficient says how far the candidates would not suffice, and where else to look.
func insufficient(d *Decision, s *Shortage, reclaims []Reclaim) string {
	signal := d.Pressure.Threshold.Signal
	required, all, within, soon := s.Required(signal), Total(reclaims), ending, ""
	if signal.OnDisk() {
		within = relief
	}
	if required > s.Missing {
		soon = fmt.Sprintf(" or are used up within %v", within)
	}
	text := fmt.Sprintf("all %d candidates together could return %s of the %s that are missing%s%s: look at %s",
		len(reclaims), wording.Amount(signal, all), wording.Amount(signal, required), soon, wording.Apart(signal, all, required), elsewhere(signal))
	return text + WouldSuffice(d, required)
}

// Reclaim is what a pod's end should free.
type Reclaim struct {
	Amount int64 // in the signal's unit
	Known  bool
}

// ReclaimOf returns what a pod's end should free of the signal. For a stall the bookings only say
// which pods are waited for, not how much of it would end.
func ReclaimOf(signal pressure.Signal, expected pressure.Amounts) Reclaim {
	amount, known := expected.Of(signal)
	return Reclaim{Amount: amount, Known: known && signal != pressure.MemoryStall}
}

// Suffice reports whether the candidates could return what is missing, for all that is
// known.
func Suffice(missing int64, candidates []Reclaim) bool {
	for _, c := range candidates {
		if missing -= c.Amount; !c.Known || missing <= 0 {
			return true
		}
	}
	return missing <= 0
}

// Total adds up what is known.
func Total(releases []Reclaim) int64 {
	all := int64(0)
	for _, r := range releases {
		all += r.Amount
	}
	return all
}

// reclaimInFlight holds a decision while what is in flight should suffice.
func reclaimInFlight(s *Situation, _ *Decision) (Hold, string) { return s.reclaimInFlight(&s.Pressure) }

func (s *Situation) reclaimInFlight(p *pressure.Pressure) (Hold, string) {
	expected, relied := s.reliedOn(p)
	short := ShortageOf(p, expected)
	if relied && short.MissingToLine == 0 {
		return HoldReclaimInProgress, fmt.Sprintf("%d victims in flight should free the %s that are missing",
			len(s.InFlight), wording.Amount(p.Threshold.Signal, short.ToLine))
	}
	return HoldNone, ""
}

// reliedOn returns what the victims that are relied on should still free, in the signal's unit,
// and whether there are any.
func (s *Situation) reliedOn(p *pressure.Pressure) (expected int64, relied bool) {
	return Relied(s.InFlight, p.Threshold.Signal, p.SampleTime, PatienceOf(p))
}

// Covered says why what is in flight suffices; "" where it does not.
func (s *Situation) Covered() string {
	_, enough := s.reclaimInFlight(&s.Pressure)
	return enough
}

// LookAgain decides by a second reading, just before something irreversible. What the victims
// should still free was measured before: what they have freed since shows in the reading, so less
// is missing by now, or as much.
func (p *Plan) LookAgain(s *Situation, again *pressure.Sample) {
	p.Decision.Hold, p.Decision.Detail = s.lookAgain(again)
}

func (s *Situation) lookAgain(again *pressure.Sample) (Hold, string) {
	if fault := Incomplete(again, s.Policy.Thresholds, s.Pressure.Threshold.Signal); fault != "" {
		return HoldIncompleteReading, fault
	}
	if !s.Pressure.HoldsIn(again) {
		return HoldRecovered, ""
	}
	now := s.Pressure
	now.Observed = again.Of(now.Threshold.Signal)
	return s.reclaimInFlight(&now)
}

// Margin returns by how much more is in flight than a hard pressure of memory or tasks needs, in the
// signal's unit. A pod that continues to take memory uses that up: a tenth of a second is soon enough
// when there is only a recovery to notice, and is 100 MB for a pod that takes a gigabyte a second. It
// returns false where the decision does not wait for what is in flight.
func (s *Situation) Margin(d *Decision) (int64, bool) {
	threshold := &s.Pressure.Threshold
	if d.Hold != HoldReclaimInProgress || !threshold.Hard || threshold.Signal.OnDisk() {
		return 0, false
	}
	short := s.Shortage()
	return short.Margin(), true
}

// Unmeasured is a pod that was not measured completely, and why; BySource says that the source gave
// that reason itself.
type Unmeasured struct {
	Pod, Why string
	BySource bool
}

// NotKnownToSuffice says that the pods that are known completely do not suffice, and names the
// others.
func (u *Uses) NotKnownToSuffice(signal pressure.Signal, needed int64) string {
	incomplete := u.Incomplete
	names := make([]string, 0, len(incomplete))
	for _, one := range incomplete {
		names = append(names, one.Pod)
	}
	// That rights are missing is worth more than that a pod has not started.
	example := incomplete[max(0, slices.IndexFunc(incomplete, func(one Unmeasured) bool { return one.BySource }))]
	return fmt.Sprintf("the candidates are known to hold less than the %s that are needed, and of %d pods not all could be measured: %s; of %s: %s",
		wording.Amount(signal, needed), len(incomplete), wording.Few(names), example.Pod, example.Why)
}

// WouldSuffice names the protected pod that would have sufficed alone, and what protects it: the
// one that uses most. It is "" when there is none, and for a stall, which is not measured by what a
// pod uses.
func WouldSuffice(d *Decision, missing int64) string {
	e := largest(d.Ranking.Protected)
	if e == nil || e.Pod.Usage <= missing || d.Pressure.Threshold.Signal == pressure.MemoryStall {
		return ""
	}
	return fmt.Sprintf("; %s alone uses %s and is protected: %s",
		e.Pod.Key(), wording.Amount(d.Pressure.Threshold.Signal, e.Pod.Usage), e.Protection)
}

// elsewhere says what uses up a signal besides pods.
func elsewhere(signal pressure.Signal) string {
	const onDisk = "images, hostPath volumes, files of the host and deleted files that are still open"
	return [...]string{
		pressure.MemoryKind: "processes of the host, page cache and kernel memory",
		pressure.PIDKind:    "processes of the host",
		pressure.SpaceKind:  onDisk,
		pressure.InodeKind:  onDisk,
	}[signal.Kind()]
}

// largest returns the protected pod that uses most, nil where no usage is known.
func largest(protected []rank.Entry) *rank.Entry {
	var found *rank.Entry
	for i := range protected {
		e := &protected[i]
		if e.Pod.Sampled && (found == nil || e.Pod.Usage > found.Pod.Usage) {
			found = e
		}
	}
	return found
}
