package agent

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// A pod that uses what it asked for, or less, did not make the shortage: the scheduler gave it
// a place for that much. Where a process of the host takes memory and keeps it, the pods within
// their requests would otherwise go one after the other, and each only feeds the host. So
// such a pod is a candidate only when the alternative is worse: the kubelet, which ends it with
// one second of grace, or the kernel's OOM killer. See [remainder.runsOut].
//
// What a pod uses is what it is ranked by ([rank.Entry].Exceeds). Of a disk that is its
// ephemeral-storage request: a pod without one exceeds it as soon as it holds a byte there,
// and with inodes, which cannot be requested, each pod that holds one. PIDs have no step for
// requests in the order, and no such rule.

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

// remainder is what is left of a signal that is under pressure, in its unit.
type remainder struct {
	// hard says that the threshold is a hard one; line is where it lies.
	hard            bool
	available, line int64
	// kubelet is where the kubelet evicts, in evictd's measure; 0 where that is not known.
	kubelet  int64
	forecast pressure.Forecast
}

// runsOut reports whether so much is left that a pod within its request has to go, where the
// pod and what is around it take so long to end: a hard threshold is met, and less than half
// of its line is left, or the kubelet's line is met or will be before the pod could have ended.
func (r *remainder) runsOut(within time.Duration) bool {
	if !r.hard || r.available >= r.line {
		return false
	}
	if r.available < r.line/2 || r.available <= r.kubelet {
		return true
	}
	after, expected := r.forecast.Until(r.available - r.kubelet)
	return expected && after <= within
}

// withhold protects the pods within their requests for which it is not their turn, and
// returns how many.
func (m WithinRequests) withhold(ranking *rank.Ranking, runsOut func(*rank.Pod) bool) (withheld int) {
	if m == WithinRequestsNever || ranking.Resource == rank.PIDs {
		return 0
	}
	ranking.Withhold(func(e *rank.Entry) rank.Protection {
		if e.Exceeds || m != WithinRequestsAlways && runsOut(e.Pod) {
			return rank.NotProtected
		}
		withheld++
		return rank.ProtectedWithinRequests
	})
	return withheld
}

// WithholdNow protects the pods within their requests in a ranking of one moment, as far as the
// moment tells when it is their turn: seen is the signal's reading, and there is no forecast.
// So they are candidates once less than half of a hard threshold is left.
func (m WithinRequests) WithholdNow(
	ranking *rank.Ranking, signal pressure.Signal, thresholds []pressure.Threshold, seen pressure.Observation,
) {
	left := remainder{available: seen.Available}
	for i := range thresholds {
		if t := &thresholds[i]; t.Hard && t.Signal == signal && seen.State == pressure.Known {
			left.hard, left.line = true, max(left.line, t.Quantity.Of(seen.Capacity))
		}
	}
	m.withhold(ranking, func(*rank.Pod) bool { return left.runsOut(0) })
}

// withholdWithinRequests protects the pods within their requests, and holds the decision
// where no candidate is left because of that.
func (a *Agent) withholdWithinRequests(d *decide.Decision) (decide.Hold, string) {
	left := a.remainderOf(&d.Pressure)
	withheld := a.policy.WithinRequests.withhold(&d.Ranking, func(pod *rank.Pod) bool {
		grace := pod.GraceSeconds
		if shorter := a.policy.grace(d, pod); shorter != nil {
			grace = *shorter
		}
		return left.runsOut(inSeconds(grace) + deadlineMargin)
	})
	if withheld == 0 || len(d.Ranking.Candidates) > 0 {
		return decide.HoldNone, ""
	}
	return decide.HoldWithinRequests, allWithinRequests(d, withheld, a.policy.WithinRequests, &left)
}

func (a *Agent) remainderOf(p *pressure.Pressure) remainder {
	return remainder{
		hard: p.Threshold.Hard, available: p.Observed.Available, line: p.Line, kubelet: a.kubeletsLine(p), forecast: p.Forecast,
	}
}

// kubeletsLine returns where the kubelet evicts at once, in evictd's measure of the signal;
// 0 where that is not known.
func (a *Agent) kubeletsLine(p *pressure.Pressure) int64 {
	signal, line := p.Threshold.Signal, int64(0)
	for i := range a.policy.KubeletHard {
		if t := &a.policy.KubeletHard[i]; t.Signal == signal {
			line = max(line, t.Quantity.Of(p.Observed.Capacity))
		}
	}
	if line == 0 || signal != pressure.MemoryAvailable || a.policy.MemoryAvailable != pressure.Kernel || a.options.KubeletGap == nil {
		return line
	}
	return max(0, line+a.options.KubeletGap(p.SampleTime))
}

// allWithinRequests says that the pods are not what uses the node up, where to look, and when
// one of them goes all the same.
func allWithinRequests(d *decide.Decision, withheld int, mode WithinRequests, left *remainder) string {
	signal := d.Pressure.Threshold.Signal
	text := fmt.Sprintf("all %d pods that could be evicted use no more than they requested: look at %s", withheld, elsewhere(signal))
	switch {
	case mode == WithinRequestsAlways:
		return text + "; none of them is evicted, because protect.withinRequests is always"
	case !left.hard:
		return text + "; none of them is evicted for a soft threshold"
	}
	text += fmt.Sprintf("; one is evicted when less than %s is left", wording.Amount(signal, left.line/2))
	if left.kubelet > 0 {
		return text + fmt.Sprintf(", or when the kubelet's threshold, %s, is near", wording.Amount(signal, left.kubelet))
	}
	return text + ", or when nothing will be left soon"
}
