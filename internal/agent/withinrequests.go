package agent

import (
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// withholdWithinRequests protects the pods within their requests, and holds the decision
// where no candidate is left because of that.
func (a *Agent) withholdWithinRequests(d *decide.Decision) (decide.Hold, string) {
	left := a.remainderOf(&d.Pressure)
	withheld := a.policy.WithinRequests.Withhold(&d.Ranking, func(pod *rank.Pod) bool {
		grace := pod.GraceSeconds
		if shorter := a.policy.grace(d, pod); shorter != nil {
			grace = *shorter
		}
		return left.RunsOut(decide.GracePeriod(grace) + inflight.DeadlineMargin)
	})
	if withheld == 0 || len(d.Ranking.Candidates) > 0 {
		return decide.HoldNone, ""
	}
	return decide.HoldWithinRequests, decide.AllWithinRequests(d, withheld, a.policy.WithinRequests, &left)
}

func (a *Agent) remainderOf(p *pressure.Pressure) decide.Remainder {
	return decide.Remainder{
		Hard: p.Threshold.Hard, Available: p.Observed.Available, Line: p.Line, Kubelet: a.kubeletsLine(p), Forecast: p.Forecast,
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
