package decide

import (
	"fmt"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

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
	if withheld == 0 || len(d.Ranking.Candidates) > 0 {
		return HoldNone, ""
	}
	return HoldWithinRequests, s.allWithinRequests(withheld)
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
