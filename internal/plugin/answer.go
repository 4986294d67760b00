package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// unknown is the cell for what the agent's answer does not tell.
const unknown = "unknown"

// decision is the part of a line of /debug/decisions that is used; docs/runbook.md has all of it.
type decision struct {
	Time   time.Time `json:"time"`
	Verb   string    `json:"verb"`
	DryRun bool      `json:"dry_run"`
	Victim string    `json:"victim"` // "" where no eviction was accepted
}

// readDecisions reads the page, the newest first.
func readDecisions(page io.Reader) ([]decision, error) {
	var decisions []decision
	if err := json.NewDecoder(page).Decode(&decisions); err != nil {
		return nil, fmt.Errorf("reading its decisions: %w", err)
	}
	return decisions, nil
}

// answer is what an agent said of itself at a moment of its own clock.
type answer struct {
	node      string
	now       time.Time // zero where the answer does not tell
	metrics   metrics
	decisions []decision
}

// mode says whether the agent evicts.
func (a *answer) mode() string {
	dryRun, told := a.metrics.of("evictd_dry_run", "")
	switch {
	case !told:
		return unknown
	case dryRun == 0:
		return "acts"
	}
	for _, reason := range a.metrics.all("evictd_dry_run_reason") {
		if mode, named := modes()[acting.Reason(reason.labels["reason"])]; named && reason.value != 0 {
			return mode
		}
	}
	return "dry run" // by its configuration
}

// modes are those of agents that do not act for another reason than their configuration.
func modes() map[acting.Reason]string {
	return map[acting.Reason]string{
		acting.Stopped: "stopped", acting.StopUnknown: "stop unknown",
	}
}

// version is the agent's version.
func (a *answer) version() string {
	for _, build := range a.metrics.all("evictd_build_info") {
		if build.labels["version"] != "" {
			return build.labels["version"]
		}
	}
	return unknown
}

// pressure names the signals under pressure, and those that could not be read.
func (a *answer) pressure() string {
	var parts []string
	for _, signal := range a.metrics.all("evictd_under_pressure") {
		if name := signal.labels["signal"]; signal.value != 0 {
			parts = append(parts, name+" "+a.held(name))
		}
	}
	for _, signal := range a.metrics.all("evictd_signal_state") {
		if signal.labels["state"] == pressure.Unknown.String() && signal.value != 0 {
			parts = append(parts, signal.labels["signal"]+" "+unknown)
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case len(a.metrics.all("evictd_under_pressure")) == 0:
		return unknown
	default:
		return "none"
	}
}

// held says which threshold of a signal under pressure holds.
func (a *answer) held(signal string) string {
	holds := map[string]bool{}
	for _, kind := range a.metrics.all("evictd_pressure") {
		if kind.labels["signal"] == signal && kind.value != 0 {
			holds[kind.labels["kind"]] = true
		}
	}
	for _, kind := range []string{pressure.Threshold{Hard: true}.Kind(), pressure.Threshold{}.Kind()} {
		if holds[kind] {
			return strings.ToLower(kind)
		}
	}
	return "in grace or transition"
}

// nearest is the distance of the signal that is nearest to a threshold.
func (a *answer) nearest() string {
	if d, known := nearest(a.metrics); known {
		return d.String()
	}
	return unknown
}

// lastEviction says when which pod was evicted last.
func (a *answer) lastEviction() string {
	for i := range a.decisions {
		d := &a.decisions[i]
		if d.Verb != string(decide.Acted) || d.Victim == "" {
			continue
		}
		text := a.ago(d.Time) + " " + wording.OneLine(d.Victim)
		if d.DryRun {
			text += " (dry run)"
		}
		return text
	}
	accepted := []string{string(evict.Evicted), string(evict.Deleted), string(evict.WouldEvict), string(evict.WouldDelete)}
	counts := a.metrics.all("evictd_evictions_total")
	for _, count := range counts {
		if count.value > 0 && slices.Contains(accepted, count.labels["outcome"]) {
			return "before its last decisions"
		}
	}
	if len(counts) == 0 {
		return unknown
	}
	return "none"
}

// lastTick says how long before its answer the agent looked at its node.
func (a *answer) lastTick() string {
	seconds, told := a.metrics.of("evictd_last_tick_timestamp_seconds", "")
	if !told || seconds == 0 || a.now.IsZero() {
		return unknown
	}
	whole, part := math.Modf(seconds)
	return a.ago(time.Unix(int64(whole), int64(part*float64(time.Second))))
}

// ago says how long before the answer a moment was.
func (a *answer) ago(moment time.Time) string {
	if a.now.IsZero() {
		return moment.UTC().Format(time.RFC3339)
	}
	return duration.HumanDuration(max(0, a.now.Sub(moment))) + " ago"
}
