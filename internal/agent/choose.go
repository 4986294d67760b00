package agent

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// plan is a decision that is ready to be carried out: whom to ask for, in order.
type plan struct {
	decision   *Decision
	candidates []candidate
	// needed is what the loop's last sample said: whether the pressure is still
	// there. A budget may take its time to refuse.
	needed *atomic.Bool
}

// candidate is one pod that may be asked for, with what its end should free.
type candidate struct {
	entry    rank.Entry
	expected map[string]int64
}

// choose decides who should go for a pressure. A hold other than HoldNone says
// that nobody should, and why.
func (a *Agent) choose(ctx context.Context, p pressure.Pressure) (plan, Hold, string) {
	made := plan{decision: a.newDecision(p), needed: &atomic.Bool{}}
	if hold, detail := a.mayDecide(&p); hold != HoldNone {
		return made, hold, detail
	}
	pods := a.options.Pods.List()
	uses, hold, detail := a.measure(ctx, &p, pods)
	if hold != HoldNone {
		return made, hold, detail
	}
	a.bookTerminating(&p, pods, uses)
	made.decision.OnTheirWay = a.ledger.OnTheirWay()
	if a.ledger.Covers(p.Threshold.Signal.String(), p.Deficit(), p.SampleTime) {
		return made, HoldOnItsWay, fmt.Sprintf("%d victims on their way out should free the %d that are missing",
			len(made.decision.OnTheirWay), p.Deficit())
	}
	made.decision.Ranking = rank.Order(resourceOf(p.Threshold.Signal), a.facts(&p, pods, uses), a.policy.Rules)
	made.candidates, hold, detail = a.askable(made.decision, uses, p.SampleTime)
	if hold != HoldNone {
		return made, hold, detail
	}
	return made, a.lookAgain(&p), ""
}

// mayDecide checks what must be true before anybody is looked at.
func (a *Agent) mayDecide(p *pressure.Pressure) (Hold, string) {
	now := p.SampleTime
	if !a.options.Pods.Synced() {
		return HoldPodsUnsynced, "the API server has not sent the node's pods yet"
	}
	if end := a.ledger.LastEnd(); !end.IsZero() && !now.After(end) {
		return HoldSettling, ""
	}
	if until := a.backoff.ServerWaits(now); !until.IsZero() {
		return HoldBackingOff, fmt.Sprintf("the API server is not asked for another %v", until.Sub(now).Round(time.Second))
	}
	if reached := a.limiter.Node(now); reached != "" {
		return HoldLimited, reached
	}
	return HoldNone, ""
}

// bookTerminating notes the pods that are on their way out although this process
// did not evict them: by hand, by a controller, by the kubelet, or by evictd
// before it was started again. So nobody is evicted twice for one deficit.
func (a *Agent) bookTerminating(p *pressure.Pressure, pods []*corev1.Pod, uses *uses) {
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			continue
		}
		use := uses.of(pod)
		if !use.known {
			continue // what it should free is not known, so it is not relied on
		}
		a.ledger.Book(evict.Booking{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
			Expected: use.expected,
			Accepted: p.SampleTime,
			Deadline: p.SampleTime.Add(graceLeft(pod) + deadlineMargin),
		})
	}
}

// graceLeft returns the most that a terminating pod may still take: the whole of its
// grace period, from the moment it is first seen. The deletion timestamp would say
// it more closely, but by the API server's clock: an hour of skew would make every
// victim stuck at once, and the next one go.
func graceLeft(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}

// askable leaves out the candidates that were refused a short while ago or whose
// owner has lost enough pods.
func (a *Agent) askable(d *Decision, uses *uses, now time.Time) ([]candidate, Hold, string) {
	if len(d.Ranking.Candidates) == 0 {
		return nil, HoldNoCandidates, fmt.Sprintf("%d pods on the node, all protected", len(d.Ranking.Protected))
	}
	var candidates []candidate
	waiting, limited := 0, 0
	for _, e := range d.Ranking.Candidates {
		if _, waits := a.backoff.Waits(e.Pod.UID, now); waits {
			waiting++
			continue
		}
		if !a.limiter.Owner(e.Pod.OwnerUID, now) {
			limited++
			continue
		}
		candidates = append(candidates, candidate{entry: e, expected: uses.byUID[e.Pod.UID].expected})
	}
	switch {
	case len(candidates) > 0:
		return candidates, HoldNone, ""
	case limited > 0:
		return nil, HoldLimited, fmt.Sprintf("%d candidates of owners that reached limits.perOwnerPerHour, %d refused a short while ago", limited, waiting)
	default:
		return nil, HoldBackingOff, fmt.Sprintf("all %d candidates were refused a short while ago", waiting)
	}
}

// lookAgain reads the node once more, just before something irreversible.
func (a *Agent) lookAgain(p *pressure.Pressure) Hold {
	again := a.options.Sampler.Sample(time.Now())
	if !p.HoldsIn(&again) {
		return HoldRecovered
	}
	return HoldNone
}
