package decide

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// NotKnownToSuffice says that the pods that are known completely do not suffice, and names the
// others.
func (s *Supply) NotKnownToSuffice(signal pressure.Signal, needed int64) string {
	incomplete := s.Uses.Incomplete
	names := make([]string, 0, len(incomplete))
	for _, u := range incomplete {
		names = append(names, u.Pod)
	}
	// That rights are missing is worth more than that a pod has not started.
	example := incomplete[max(0, slices.IndexFunc(incomplete, func(u Unmeasured) bool { return u.Told }))]
	return fmt.Sprintf("the candidates are known to hold less than the %s that are needed, and of %d pods not all could be measured: %s; of %s: %s",
		wording.Amount(signal, needed), len(incomplete), wording.Few(names), example.Pod, example.Why)
}

// filledElsewhere says how little of a disk is the candidates'.
func filledElsewhere(p *pressure.Pressure, releases []Reclaim, least pressure.Quantity) string {
	signal := p.Threshold.Signal
	return fmt.Sprintf("all %d candidates together hold %s, less than limits.minimumReclaimShare (%v) of the threshold's %s: look at %s",
		len(releases), wording.Amount(signal, Total(releases)), least, wording.Amount(signal, p.Line), elsewhere(signal))
}

// insufficient says how far the candidates would not suffice, and where else to look.
func insufficient(d *Decision, s *Shortage, releases []Reclaim, least pressure.Quantity) string {
	p := &d.Pressure
	signal, missing, share := p.Threshold.Signal, s.ToReach(p.Threshold.Signal), ""
	switch {
	case signal.OnDisk() && Suffice(missing, releases):
		return filledElsewhere(p, releases, least)
	case missing == 0:
		missing, share = s.Missing, fmt.Sprintf(" to %s, limits.minimumReclaimShare is %v", wording.Amount(signal, p.Target), least)
	}
	all := Total(releases)
	text := fmt.Sprintf("all %d candidates together could return %s of the %s that are missing%s%s: look at %s",
		len(releases), wording.Amount(signal, all), wording.Amount(signal, missing), wording.Apart(signal, all, missing), share, elsewhere(signal))
	return text + WouldSuffice(d, missing)
}

// allSmall describes the case that only small candidates are left while a larger pod is not a
// candidate yet.
func allSmall(d *Decision, s *Shortage, releases []Reclaim, least pressure.Quantity) string {
	signal := d.Pressure.Threshold.Signal
	return fmt.Sprintf("each of the %d candidates would return less than limits.minimumReclaimShare (%v) of the %s that are missing, and larger pods go first when %s runs out",
		len(releases), least, wording.Amount(signal, s.Missing), signal) + WouldSuffice(d, s.Missing)
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
