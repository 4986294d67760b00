package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/brake"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// slotRest is how long a workload that had no free slot is left alone, and half as long
// again at random: a slot becomes free when a victim ends, which takes seconds.
const slotRest = 2 * time.Second

// slotless remembers whom the brake had no slot for. Its zero value remembers nothing.
type slotless struct {
	until   map[string]time.Time // by the workload
	details map[string]string
	// unknown is until when soft evictions are not tried again after the API server could
	// not tell, for whatever workload.
	unknown time.Time
	why     string
}

// noteSlots remembers what a walk met; nil is nothing.
func (a *Agent) noteSlots(w *slotWalk, now time.Time) {
	if w != nil {
		rest := slotRest + time.Duration(a.options.Random()*float64(slotRest)/2)
		a.slotless.note(w, now, now.Add(rest))
	}
}

// note remembers what a walk met.
func (s *slotless) note(w *slotWalk, now, until time.Time) {
	for workload, end := range s.until {
		if !now.Before(end) {
			delete(s.until, workload)
			delete(s.details, workload)
		}
	}
	if s.until == nil {
		s.until, s.details = map[string]time.Time{}, map[string]string{}
	}
	for workload, detail := range w.full {
		s.until[workload], s.details[workload] = until, detail
	}
	if w.unknown != "" {
		s.unknown, s.why = until, w.unknown
	}
}

// waits says why a pod is not asked for now; "" when it may be.
func (s *slotless) waits(pod *rank.Pod, hard bool, now time.Time) string {
	workload := brake.WorkloadOf(pod)
	switch {
	case workload == "":
		return ""
	case now.Before(s.until[workload]):
		return s.details[workload]
	case !hard && now.Before(s.unknown):
		return s.why
	default:
		return ""
	}
}

// withholdSlotless withholds those whose workload had no free slot a moment ago.
func (a *Agent) withholdSlotless(d *decide.Decision) (decide.Hold, string) {
	if a.policy.SlotsPerWorkload == 0 {
		return decide.HoldNone, ""
	}
	hard, now, detail := d.Pressure.Threshold.Hard, d.Pressure.SampleTime, ""
	d.Ranking.Withhold(func(e *rank.Entry) rank.Protection {
		why := a.slotless.waits(e.Pod, hard, now)
		if why == "" {
			return rank.NotProtected
		}
		e.Detail, detail = why, why
		return rank.ProtectedSlotless
	})
	if len(d.Ranking.Candidates) > 0 {
		return decide.HoldNone, ""
	}
	return decide.HoldNoSlot, "the last of them: " + detail
}

// releaseSlots gives back the slots of victims that have ended, and keeps those of victims
// that are leaving. One that is booked may run although the API server has forgotten it;
// one that is listed may stay, because its request was not heard.
func (a *Agent) releaseSlots() {
	if a.options.Brake == nil || !a.options.Pods.Synced() {
		return
	}
	a.options.Brake.Release(
		func(uid string) bool { return a.ledger.Booked(uid) || a.listed()[uid] },
		func(uid string) bool { return a.ledger.Booked(uid) || a.terminating(uid) },
	)
}

// slotWalk is what one walk knows of the brake.
type slotWalk struct {
	brake    Brake // nil when there is none
	decision *decide.Decision
	slots    int
	full     map[string]string // why, by the workload
	unknown  string            // why the API server could not tell; "" when it could
	last     string            // what was said last
}

func (a *Agent) newSlotWalk(d *decide.Decision, policy *Policy) *slotWalk {
	w := &slotWalk{decision: d, slots: policy.SlotsPerWorkload, full: map[string]string{}}
	if policy.SlotsPerWorkload > 0 {
		w.brake = a.options.Brake
	}
	return w
}

// take takes a slot for a candidate and reports whether it may be asked for. Where the API
// server cannot tell, a soft eviction is not sent and a hard one is, without a slot: the
// kernel does not wait.
func (w *slotWalk) take(ctx context.Context, stop *interrupt, attempt *decide.Attempt) bool {
	pod := attempt.Entry.Pod
	workload := brake.WorkloadOf(pod)
	if w.brake == nil || workload == "" {
		return true
	}
	if w.full[workload] != "" {
		return false
	}
	if w.unknown != "" {
		return w.goesOn(pod)
	}
	answer := w.brake.Take(ctx, brake.Request{
		Pod: pod, Slots: w.slots, Lasts: lasts(attempt), DryRun: w.decision.DryRun,
	})
	if w.decision.Detail = whyStop(ctx, stop); w.decision.Detail != "" {
		w.brake.Return(pod.UID)
		return false
	}
	switch answer.Verdict {
	case brake.Granted:
		return true
	case brake.Full:
		w.full[workload] = fmt.Sprintf("%s has no free slot of %d: %s", workload, w.slots, answer.Detail)
		w.say(w.full[workload])
		return false
	default:
		w.unknown = "whether " + workload + " has a free slot is not known: " + answer.Detail
		return w.goesOn(pod)
	}
}

// goesOn reports whether a pod is asked for although nobody knows whether there is a slot.
func (w *slotWalk) goesOn(pod *rank.Pod) bool {
	if w.decision.Pressure.Threshold.Hard {
		w.say(pod.Key() + " is asked for without a slot, because the pressure is hard: " + w.unknown)
		return true
	}
	w.say(pod.Key() + " is not asked for, because the pressure is soft: " + w.unknown)
	return false
}

func (w *slotWalk) say(note string) {
	w.decision.Notes, w.last = append(w.decision.Notes, note), note
}

// answered gives back the slot of a pod that stays. One whose answer was not heard may be
// on its way out.
func (w *slotWalk) answered(attempt *decide.Attempt) {
	if o := attempt.Result.Outcome; w.brake != nil && !o.Accepted() && o != evict.Unconfirmed {
		w.brake.Return(attempt.Entry.Pod.UID)
	}
}

// held returns why somebody was not asked for; "" when it was not for want of a slot.
func (w *slotWalk) held() string {
	if w == nil || len(w.full) == 0 && (w.unknown == "" || w.decision.Pressure.Threshold.Hard) {
		return ""
	}
	return w.last // others add notes too
}

// lasts returns how long a victim may need a slot: until its request is answered, then
// its grace period, and the kubelet's clean-up.
func lasts(attempt *decide.Attempt) time.Duration {
	return evict.RequestTimeout + lookTimeout + inSeconds(attempt.Grace()) + deadlineMargin
}
