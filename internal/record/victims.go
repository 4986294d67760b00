package record

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
)

// What is said once is said of a victim by its UID, or of a failure by its kind, beside others.
type (
	victim  string
	failure string
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
	stuck := 0
	for i := range bookings {
		if b := &bookings[i]; b.Stuck(now) {
			stuck++
			if _, due := r.said.say(victim(b.UID), "", now, pace{}); due {
				r.sayStuck(b)
			}
		}
	}
	r.said.keep(func(of any) bool {
		uid, is := of.(victim)
		return !is || slices.ContainsFunc(bookings, func(b decide.Victim) bool { return victim(b.UID) == uid && b.Stuck(now) })
	})
	r.metrics.stuck.WithLabelValues().Set(float64(stuck))
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
	b, overran := &e.Victim, e.Overran()
	r.metrics.terminations.WithLabelValues(strconv.FormatBool(overran)).Observe(e.Took().Seconds())
	line := with("victim", b.Namespace+"/"+b.Name, "uid", b.UID, "signal", e.Signal, "unit", e.Signal.Unit(),
		"accepted", b.Accepted.UTC(), "deadline", b.Deadline.UTC(), "duration_seconds", e.Took().Seconds(), "overran", overran).
		some("held", b.Held, "expected", e.Expected)
	if e.Reclaim != nil {
		line = line.with("expected_last", e.Reclaim.Expected, "reclaimed", e.Reclaim.Actual)
		unit, _ := unitOf(e.Signal)
		r.metrics.reclaimExpected[unit].WithLabelValues(e.Signal.String()).Add(float64(e.Reclaim.Expected))
		r.metrics.reclaimActual[unit].WithLabelValues(e.Signal.String()).Add(float64(max(0, e.Reclaim.Actual)))
	}
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
	var evicted, would, victims []string
	for _, v := range i.Victims {
		victims = append(victims, v.Pod)
		if v.DryRun {
			would = append(would, v.Pod)
		} else {
			evicted = append(evicted, v.Pod)
		}
	}
	kernel := ""
	switch kills := i.During.OOMKills; {
	case kills < 0:
		kernel = "whether the kernel killed a process for want of memory is not known"
	case kills > 0:
		kernel = fmt.Sprintf("the kernel killed %d processes for want of memory", kills)
	}
	byEvictd := clauses("; ", list("evictd evicted ", evicted, i.More), list("dry run: evictd would have evicted ", would, i.More))
	byOthers := clauses(", ", list("the kubelet evicted ", i.During.Kubelets, 0), kernel)
	line := with("incident", i.ID, "signal", i.Signal, "unit", i.Signal.Unit(), "since", i.Began.UTC(),
		"duration_seconds", i.Short.Sub(i.Began).Seconds(), "lowest", i.Lowest, "victims", victims, "kubelet_evictions", i.During.Kubelets,
		"detail", cmp.Or(byEvictd, "evictd evicted no pod")+"; "+cmp.Or(byOthers, "the kubelet and the kernel ended nothing"))
	if i.During.OOMKills >= 0 {
		line = line.with("oom_kills", i.During.OOMKills)
	}
	r.logger.Info("incident ended", line...)
}

// clauses joins the clauses that say something.
func clauses(between string, all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), between)
}

// list says something of eight names at most, and counts those that it leaves out and that were left out
// before; "" of none.
func list(what string, names []string, more int) string {
	const most = 8
	if len(names) == 0 {
		return ""
	}
	if left := len(names) - most; left > 0 {
		names, more = names[:most], more+left
	}
	text := what + strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
