package decide

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// One formula says which candidates may be evicted for what is short: docs/adr/0036-one-formula-of-a-shortage.md.

// Relief is for how long the ends of pods must make up for what is being used up. Most is the share of what was
// used up lately that they must hold: other pods have used up some, and a pod's own figure lacks page tables. Of that
// they must have taken a quarter themselves.
const (
	Relief = 30 * time.Second
	most   = 0.9
	part   = 4
)

// shortage are the figures of what a pressure is short of, in the signal's unit. None but Taken is
// negative.
type shortage struct {
	// ToLine is missing to the threshold's line, by the reading alone, and InFlight is what the victims that
	// are relied on should still free.
	ToLine, InFlight int64
	// Missing is what is still missing to the target, the line plus the minimum reclaim, beside what is
	// in flight. Needed is what is used up within [Relief] besides, at the rate that is certain by the last
	// seconds; of memory and tasks Reaches at least.
	Missing, Needed int64
	// Lately is [most] of what was used up in the seconds of the forecast, which the pods that did it hold. Taken is by how
	// much the candidates over their requests must have grown to be these, negative where what is in flight is, and Reaches
	// what they must free besides that: what reaches the threshold, and Lately.
	Lately, Taken, Reaches int64
	// Required is what candidates must be able to free together where others were refused. A disk that is full ends no
	// process, and one that the host fills must not cost one pod after the other: there it is all that is needed.
	Required int64
}

// shortageOf returns the figures of a pressure, with so much in flight.
func shortageOf(p *pressure.Pressure, inFlight int64) shortage {
	s := shortage{ToLine: max(0, p.Line-p.Observed.Available), InFlight: max(0, inFlight)}
	s.Missing = max(0, p.Target-p.Observed.Available-s.InFlight)
	s.Needed = s.Missing + usedUp(p)
	s.Lately = int64(most * p.Forecast.Fallen)
	s.Reaches = max(0, max(s.ToLine, s.Lately)-s.InFlight)
	if p.Threshold.Signal.OnDisk() {
		s.Required, s.Taken = s.Needed, max(1, s.Lately/part)
		return s
	}
	s.Required, s.Needed, s.Taken = s.Reaches, max(s.Needed, s.Reaches), s.Lately/part-s.InFlight
	return s
}

// shortage returns the figures of the pressure with what is relied on.
func (s *Situation) shortage() shortage {
	return shortageOf(&s.Pressure, Relied(s.InFlight, &s.Pressure))
}

// Required returns what the candidates must be able to free together, in the signal's unit.
func (s *Situation) Required() int64 { return s.shortage().Required }

// usedUp returns how much of the signal is used up within [Relief]; 0 where that is not known, or it does
// not fall. The pod that fills a disk within seconds holds what it wrote in those of the forecast, and perhaps
// less than it will write.
func usedUp(p *pressure.Pressure) int64 {
	f, within := &p.Forecast, Relief
	if !f.Known || f.Rate <= 0 {
		return 0
	}
	if p.Threshold.Signal.OnDisk() && TooLate(p, 0) {
		within = min(within, f.Over)
	}
	return int64(f.Rate * within.Seconds())
}

// anyHelps reports whether a pod is evicted although all together may not suffice: near exhaustion, where
// the kernel or the kubelet would end one.
func (s *Situation) anyHelps() bool {
	return RunsOut(&s.Pressure, s.KubeletLine) && !s.Pressure.Threshold.Signal.OnDisk()
}

// covered reports whether a pod may be evicted, by what the ends of the candidates free together, and whether those that
// exceed their requests do. These are the first over of them; the others are there only near exhaustion. Took is by how much
// those over have grown: what another pod takes does not end with theirs.
func (s *shortage) covered(signal pressure.Signal, ends []pressure.Amounts, over int, took int64, anyHelps bool) (covered, byExceeding bool) {
	covered = anyHelps || Suffice(signal, s.Needed, ends) || took >= s.Taken && Suffice(signal, s.Reaches, ends)
	return covered, Suffice(signal, s.Needed, ends[:over])
}

// sufficient withholds the candidates that may not be evicted for what is short, by what all of them free
// together. A pod whose owner has reached its limit counts among the others, and no pod behind it goes in its place.
func sufficient(s *Situation, d *Decision) (Hold, string) {
	signal, short := s.Pressure.Threshold.Signal, s.shortage()
	ends, over, took, limited := s.supply(d)
	covered, byExceeding := short.covered(signal, ends, over, took, s.anyHelps())
	switch {
	case len(ends) == over:
	case byExceeding:
		s.Policy.WithinRequests.Withhold(&d.Ranking, false)
	case covered:
		s.withholdSmall(d, max(short.Required, short.ToLine-short.InFlight+short.Lately))
	}
	limits := fmt.Sprintf("%d candidates that wait for others of their owners: %s", len(limited), wording.Few(limited))
	switch {
	case len(limited) > 0 && !covered:
		return HoldLimitReached, limits
	case !covered && len(s.Uses.Incomplete) > 0:
		return HoldUsageUnknown, s.Uses.notKnownToSuffice(signal, short.Required)
	case !covered:
		text := Insufficient(signal, ends, "", short.Required)
		if Suffice(signal, short.Reaches, ends) && !signal.OnDisk() {
			text = fmt.Sprintf("the %d candidates took %s of the %s that were used up lately", over, wording.Amount(signal, took), wording.Amount(signal, short.Lately))
		}
		return HoldInsufficientReclaim, text + ": look at " + elsewhere(signal) + wouldSuffice(d, short.Required)
	case len(limited) > 0:
		return d.passes("no request is sent for " + limits)
	}
	return HoldNone, ""
}

// withholdSmall withholds the candidates that free too little, where pods within their requests go: those
// whose end is not needed beside the others of the first that reach the threshold together, and free what was
// used up lately besides. Where the candidates do not, or it is not known, any may help.
func (s *Situation) withholdSmall(d *Decision, needed int64) {
	first, freed := 0, int64(0)
	reclaims := make(map[string]int64, len(d.Ranking.Candidates))
	for ; freed < needed && first < len(d.Ranking.Candidates); first++ {
		uid := d.Ranking.Candidates[first].Pod.UID
		reclaim, known := ReclaimOf(s.Pressure.Threshold.Signal, s.Uses.ByUID[uid].Expected)
		if !known {
			return
		}
		reclaims[uid], freed = reclaim, freed+reclaim
	}
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		reclaim, among := reclaims[e.Pod.UID]
		if !among || freed-reclaim < needed {
			return rank.NotProtected
		}
		freed -= reclaim
		return rank.ProtectedReclaimTooSmall
	})
}

// supply returns what the candidates' ends should free, of which the first over exceed their requests, by how much these have
// grown, and whose owner has reached its limit. For a disk these do not count: the others would go for nothing.
func (s *Situation) supply(d *Decision) (ends []pressure.Amounts, over int, took int64, limited []string) {
	signal, all := s.Pressure.Threshold.Signal, s.Policy.WithinRequests == WithinRequestsNever || d.Ranking.Resource == rank.PIDs
	var within []pressure.Amounts
	for i := range d.Ranking.Candidates {
		e := &d.Ranking.Candidates[i]
		use := s.Uses.ByUID[e.Pod.UID]
		reason, waits := s.Cooldown.Owner(s, e.Pod)
		if waits {
			limited = append(limited, e.Pod.Key()+": "+reason.Detail)
		}
		switch {
		case waits && signal.OnDisk():
		case e.Exceeds || all:
			ends, took = append(ends, use.Expected), took+max(0, use.Grown)
		default:
			within = append(within, use.Expected)
		}
	}
	return append(ends, within...), len(ends), took, limited
}

// Insufficient says how far the ends of all candidates, or of those that a clause selects, would not suffice.
func Insufficient(signal pressure.Signal, ends []pressure.Amounts, which string, required int64) string {
	all := int64(0)
	for i := range ends {
		all += ends[i].At(signal)
	}
	return fmt.Sprintf("all %d candidates%s together could return %s of the %s that are needed%s",
		len(ends), which, wording.Amount(signal, all), wording.Amount(signal, required), wording.Apart(signal, all, required))
}

// ReclaimOf returns what a pod's end should free of the signal, by what it should free of each; false where
// that is not known. For a stall the bookings only say which pods are waited for, not how much of it would
// end.
func ReclaimOf(signal pressure.Signal, expected pressure.Amounts) (amount int64, known bool) {
	amount, known = expected.Of(signal)
	return amount, known && signal != pressure.MemoryStall
}

// Suffice reports whether the ends of the candidates could free what is missing, for all that is known.
func Suffice(signal pressure.Signal, missing int64, candidates []pressure.Amounts) bool {
	for i := range candidates {
		amount, known := ReclaimOf(signal, candidates[i])
		if missing -= amount; !known || missing <= 0 {
			return true
		}
	}
	return missing <= 0
}

// reclaimInFlight holds a decision while what is in flight should suffice.
func reclaimInFlight(s *Situation, _ *Decision) (Hold, string) {
	short := s.shortage()
	detail := fmt.Sprintf("%d victims in flight should free the %s that are missing",
		len(s.InFlight), wording.Amount(s.Pressure.Threshold.Signal, short.ToLine))
	return holdIf(short.InFlight > 0 && short.InFlight >= short.ToLine, HoldReclaimInProgress, detail)
}

// Covered says why what is in flight suffices; "" where it does not, or what the pods use is not known well
// enough.
func (s *Situation) Covered() (enough string) {
	if hold, _ := usesKnown(s, &Decision{}); hold == HoldNone {
		_, enough = reclaimInFlight(s, nil)
	}
	return enough
}

// LookAgain decides by a second reading, just before something irreversible. What the victims
// should still free was measured before: what they have freed since shows in the reading, so less
// is missing by now, or as much.
func (p *Plan) LookAgain(s *Situation, again *pressure.Sample) {
	now := *s
	now.Sample, now.Pressure.Observed = again, again.Of(s.Pressure.Threshold.Signal)
	p.pass(&now, incompleteReading, recovered, reclaimInFlight)
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
	short := s.shortage()
	return max(0, short.InFlight-short.ToLine), true
}

// notKnownToSuffice says that the pods that are known completely do not suffice, and names the
// others.
func (u *Uses) notKnownToSuffice(signal pressure.Signal, needed int64) string {
	return fmt.Sprintf("the candidates are known to hold less than the %s that are needed, and of %d pods not all could be measured: %s",
		wording.Amount(signal, needed), len(u.Incomplete), wording.Few(u.Incomplete))
}

// wouldSuffice names the protected pod that would have sufficed alone, and what protects it: the
// one that uses most. It is "" when there is none, and for a stall, which is not measured by what a
// pod uses.
func wouldSuffice(d *Decision, missing int64) (text string) {
	signal, most := d.Pressure.Threshold.Signal, missing
	for i := range d.Ranking.Protected {
		e := &d.Ranking.Protected[i]
		if e.Pod.Sampled && e.Pod.Usage > most && signal != pressure.MemoryStall {
			most = e.Pod.Usage
			text = fmt.Sprintf("; %s alone uses %s and is protected: %s", e.Pod.Key(), wording.Amount(signal, most), e.Protection)
		}
	}
	return text
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

// A pod within its request did not make the shortage: it is a candidate only when the kubelet or
// the kernel would act next (docs/adr/0004-pods-within-their-requests-near-exhaustion.md).

// WithinRequests says when a pod that does not exceed its request is a candidate. Its values
// are those of protect.withinRequests.
type WithinRequests string

// The values. The zero value means WithinRequestsUntilExhaustion.
const (
	// WithinRequestsUntilExhaustion: only while the signal really runs out.
	WithinRequestsUntilExhaustion WithinRequests = "untilExhaustion"
	// WithinRequestsAlways: never a candidate.
	WithinRequestsAlways WithinRequests = "always"
	// WithinRequestsNever: a candidate like others, behind those that exceed theirs, as in
	// the kubelet.
	WithinRequestsNever WithinRequests = "never"
)

// RunsOut reports whether the node is near exhaustion: a hard threshold is met, and less than half of it
// is left, or the kubelet's threshold is met. Kubelets is where that lies, in evictd's measure; 0 where it
// is not known.
func RunsOut(p *pressure.Pressure, kubelets int64) bool {
	left := p.Observed.Available
	return p.Threshold.Hard && left < p.Line && (left < p.Line/2 || left <= kubelets)
}

// withinRequests protects the pods within their requests until the node is near exhaustion, and holds the
// decision where no candidate is left because of that.
func withinRequests(s *Situation, d *Decision) (Hold, string) {
	withheld := s.Policy.WithinRequests.Withhold(&d.Ranking, RunsOut(&s.Pressure, s.KubeletLine))
	return holdIf(withheld > 0 && len(d.Ranking.Candidates) == 0, HoldWithinRequests, s.allWithinRequests(withheld))
}

// Withhold protects the pods within their requests that may not be evicted yet, and returns how
// many.
func (m WithinRequests) Withhold(ranking *rank.Ranking, nearExhaustion bool) (withheld int) {
	if m == WithinRequestsNever || ranking.Resource == rank.PIDs {
		return 0
	}
	ranking.Withhold(func(e *rank.Entry) rank.Protection {
		if e.Exceeds || m != WithinRequestsAlways && nearExhaustion {
			return rank.NotProtected
		}
		withheld++
		return rank.ProtectedWithinRequests
	})
	return withheld
}

// allWithinRequests says that the pods do not use up the node, where to look, and when one of them
// is evicted nevertheless.
func (s *Situation) allWithinRequests(withheld int) string {
	p := &s.Pressure
	signal := p.Threshold.Signal
	text := fmt.Sprintf("all %d pods that could be evicted use no more than they requested: look at %s", withheld, elsewhere(signal))
	switch {
	case s.Policy.WithinRequests == WithinRequestsAlways:
		return text + "; none of them is evicted, because protect.withinRequests is always"
	case !p.Threshold.Hard:
		return text + "; none of them is evicted for a soft threshold"
	}
	text += fmt.Sprintf("; one is evicted when less than %s is left", wording.Amount(signal, p.Line/2))
	if s.KubeletLine > 0 {
		text += fmt.Sprintf(", or when the kubelet's threshold, %s, is met", wording.Amount(signal, s.KubeletLine))
	}
	return text
}
