package record

import (
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
)

// Acting notes whether evictd acts, at the start and after each change; the same again is not
// noted. An answer that is still awaited has a metric alone: it comes within a moment, or what
// prevents it does.
func (r *Recorder) Acting(s acting.State) {
	r.mu.Lock()
	before := r.acting
	r.acting = &s
	r.mu.Unlock()
	if before != nil && s == *before {
		return
	}
	r.metrics.acts(s)
	awaited := s.Reason.Unknown() && s.Do == ""
	if awaited {
		return
	}
	r.logActing(s)
	r.tellActing(s, before)
}

func (r *Recorder) logActing(s acting.State) {
	if s.Acts() {
		r.logger.Info(messageActs)
		return
	}
	level := zapcore.InfoLevel
	if unusual(s) {
		level = zapcore.WarnLevel
	}
	detail := s.Why
	if s.Do != "" {
		detail += "; " + s.Do
	}
	r.logger.Log(level, messageActsNot, zap.String(keyReason, string(s.Reason)), zap.String(keyDetail, detail))
}

// tellActing writes the Event on the node: where evictd is stopped or does not know whether it is,
// and when that is over. What the configuration says has none.
func (r *Recorder) tellActing(s acting.State, before *acting.State) {
	switch {
	case unusual(s):
		r.warnOnNode(ReasonStopped, shorten(s.String()+"; "+s.Do+". Until then its evictions are server-side dry runs.", messageLimit))
	case before != nil && unusual(*before) && before.Do != "":
		r.tellOnNode(ReasonResumed, shorten("It is not stopped any more: "+s.String()+".", messageLimit))
	}
}

// unusual reports whether no configuration says that evictd does not act.
func unusual(s acting.State) bool { return s.Reason == acting.Stopped || s.Reason.Unknown() }

// acts sets the metrics of a dry run.
func (m *metrics) acts(s acting.State) {
	m.dryRun.Set(number(!s.Acts()))
	for _, reason := range acting.Reasons() {
		m.dryRunReason.WithLabelValues(string(reason)).Set(number(s.Reason == reason))
	}
}

// notActing returns the sentence of a dry run's Event that says why evictd does not act; "" where it
// does, or that is not known.
func notActing(d *decide.Decision) string {
	if d.DryRunWhy == "" {
		return ""
	}
	return " evictd does not act: " + strings.TrimSuffix(d.DryRunWhy, ".") + "."
}
