package record

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/wording"
)

// Ledger records at each tick the pods that are in flight now, and how many are in back-off because a
// budget refused, or because several budgets select them. It reports once for each victim that it is
// stuck.
func (r *Recorder) Ledger(now time.Time, bookings []decide.Victim, blocked, misconfigured int) {
	r.metrics.inFlight.WithLabelValues().Set(float64(len(bookings)))
	r.metrics.blocked.WithLabelValues().Set(float64(blocked))
	r.metrics.misconfigured.WithLabelValues().Set(float64(misconfigured))
	r.mu.Lock()
	defer r.mu.Unlock()
	var stuck []string
	for i := range bookings {
		if b := &bookings[i]; b.Stuck(now) {
			if stuck = append(stuck, b.UID); !slices.Contains(r.stuck, b.UID) {
				r.sayStuck(b)
			}
		}
	}
	r.stuck = stuck
	r.metrics.stuck.WithLabelValues().Set(float64(len(stuck)))
}

// sayStuck logs that a victim has not ended, whether or not evictd evicted it, and writes an Event
// on a pod that evictd evicted.
func (r *Recorder) sayStuck(b *decide.Victim) {
	r.logger.Warn("victim does not end", with("victim", b.Key(), "uid", b.UID, "accepted", b.Accepted.UTC(), "deadline", b.Deadline.UTC())...)
	if b.Signal != "" && b.Name != "" {
		r.tell(podReference(b.Namespace, b.Name, b.UID), reasonStuck, "{signal}", b.Signal, "{deadline}", b.Deadline.UTC().Format(time.RFC3339))
	}
}

// VictimEnded records that a victim has ended, and what its end freed.
func (r *Recorder) VictimEnded(e *decide.Ended) {
	b, overran := &e.Victim, e.Victim.Stuck(e.Victim.Ended)
	r.metrics.terminations.WithLabelValues(strconv.FormatBool(overran)).Observe(e.Took().Seconds())
	line := with("victim", b.Namespace+"/"+b.Name, "uid", b.UID, "signal", e.Signal, "unit", e.Signal.Unit(),
		"accepted", b.Accepted.UTC(), "deadline", b.Deadline.UTC(), "duration_seconds", e.Took().Seconds(), "overran", overran).
		some("held", b.Held, "expected", e.Expected, "expected_last", e.Last, "reclaimed", e.Freed)
	r.logger.Info("victim ended", line...)
}

// Incidents writes down what the node became short of, and which shortages are over, with what was done
// against them: by evictd, by the kubelet and by the kernel.
func (r *Recorder) Incidents(began, ended []incident.Incident) {
	for n := range began {
		i := &began[n]
		r.logger.Warn("incident began", with("incident", i.ID, "signal", i.Signal, "unit", i.Signal.Unit(), "available", i.Lowest, "since", i.Began.UTC())...)
	}
	for n := range ended {
		r.incidentEnded(&ended[n])
	}
}

func (r *Recorder) incidentEnded(i *incident.Incident) {
	var evicted, would []string
	for _, v := range i.Victims {
		if v.DryRun {
			would = append(would, v.Pod)
		} else {
			evicted = append(evicted, v.Pod)
		}
	}
	line := with("incident", i.ID, "signal", i.Signal, "unit", i.Signal.Unit(), "since", i.Began.UTC(),
		"duration_seconds", i.Short.Sub(i.Began).Seconds(), "lowest", i.Lowest,
		"victims", evicted, "would_be_victims", would, "kubelet_evictions", i.Kubelets).some("more_victims", i.More)
	kills := "unknown"
	if i.OOMKills >= 0 {
		line, kills = line.with("oom_kills", i.OOMKills), strconv.FormatInt(i.OOMKills, 10)
	}
	r.logger.Info("incident ended", line...)
	simulated := ""
	if len(would) > 0 {
		simulated = ", would evict: " + named(would, 0)
	}
	r.onNode(reasonEnded, "{signal}", i.Signal.String(), "{time}", i.Short.Sub(i.Began).Round(time.Second).String(), "{lowest}", wording.Amount(i.Signal, i.Lowest),
		"{evicted}", named(evicted, i.More), "{would}", simulated, "{kubelet}", named(i.Kubelets, 0), "{kills}", kills, "{incident}", i.ID)
}

// named names pods, and how many more there are.
func named(pods []string, more int) string {
	text := cmp.Or(wording.Few(pods), "none")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
