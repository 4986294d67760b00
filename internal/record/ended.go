package record

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// endings are the metrics of victims that have ended.
type endings struct {
	took             *prometheus.HistogramVec
	expected, actual vectors[*prometheus.CounterVec]
}

// newEndings returns the metrics with every series. The two counters have none for a signal of
// which it cannot be known what a victim's end frees.
func newEndings(by registrar) endings {
	measured := func(s pressure.Signal) bool { return s.Reclaim() == pressure.ReclaimMeasured }
	e := endings{
		took: by.histograms("victim_termination_seconds", "From the acceptance of an eviction to the pod's end: the API server does not list it any more and its cgroup is not there. "+
			"Overran is true where that was after its deadline, which is its grace period and 15 seconds. Victims of a pod of evictd's that was replaced since are not counted.", endingBuckets(), "overran"),
		expected: newVectors(measured, func(unit string) *prometheus.CounterVec {
			return by.counters("reclaim_expected_"+unit+"_total", "What victims that have gone held by the last measurement before they began to end. "+
				"A victim counts only where evictd_reclaim_actual_"+unit+"_total can count it too.", "signal")
		}),
		actual: newVectors(measured, func(unit string) *prometheus.CounterVec {
			return by.counters("reclaim_actual_"+unit+"_total", "What the node got back by the end of the victims that evictd_reclaim_expected_"+unit+"_total counts"+
				": by how much what is available and what the other pods hold, together, grew from that measurement to the end. "+
				"What other pods took or gave back meanwhile is not in it; what processes outside of pods and the kernel did is. Less than nothing counts as nothing.", "signal")
		}),
	}
	for _, overran := range []bool{false, true} {
		e.took.WithLabelValues(strconv.FormatBool(overran))
	}
	for _, signal := range pressure.Signals() {
		if measured(signal) {
			e.expected.of(signal).WithLabelValues(signal.String())
			e.actual.of(signal).WithLabelValues(signal.String())
		}
	}
	return e
}

// endingBuckets have the usual grace periods among them: 30 s and 60 s, and the deadlines
// that belong to them.
func endingBuckets() []float64 {
	return []float64{.5, 1, 2.5, 5, 10, 20, 30, 35, 45, 60, 75, 120, 300, 600, 1800, 3600}
}

// VictimEnded records that a victim has ended, and what its end freed.
func (r *Recorder) VictimEnded(e *decide.Ended) {
	b := &e.Victim
	r.metrics.endings.took.WithLabelValues(strconv.FormatBool(e.Overran())).Observe(e.Took().Seconds())
	fields := []zap.Field{
		zap.String(keyVictim, b.Namespace+"/"+b.Name), zap.String(keyUID, b.UID),
		zap.Stringer(keySignal, e.Signal), zap.String(keyUnit, string(e.Signal.Unit())),
		zap.Time(keyAccepted, b.Accepted.UTC()), zap.Time(keyDeadline, b.Deadline.UTC()),
		zap.Float64(keyDuration, e.Took().Seconds()), zap.Bool(keyOverran, e.Overran()),
	}
	if b.Held != nil {
		fields = append(fields, zap.Any(keyHeld, b.Held))
	}
	if e.Expected != nil {
		fields = append(fields, zap.Int64(keyExpected, *e.Expected))
	}
	if e.Reclaim != nil {
		fields = append(fields, zap.Int64(keyExpectedLast, e.Reclaim.Expected), zap.Int64(keyReclaimed, e.Reclaim.Actual))
		r.metrics.endings.expected.of(e.Signal).WithLabelValues(e.Signal.String()).Add(float64(e.Reclaim.Expected))
		r.metrics.endings.actual.of(e.Signal).WithLabelValues(e.Signal.String()).Add(float64(max(0, e.Reclaim.Actual)))
	}
	r.logger.Info(messageGone, fields...)
}
