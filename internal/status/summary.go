package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

const (
	unknown = "unknown"
	// kept is how many decisions an agent keeps: with fewer, none is missing.
	kept = 64
)

// decision is the part of an entry of Decisions that is used; docs/runbook.md has all of it.
type decision struct {
	Time   time.Time `json:"time"`
	Verb   string    `json:"verb"`
	Hold   string    `json:"hold"`
	Detail string    `json:"detail"`
	Signal string    `json:"signal"`
	Kind   string    `json:"kind"`
	DryRun bool      `json:"dry_run"`
	Victim string    `json:"victim"` // "" where no eviction was accepted
}

// decisions returns the last decisions, the newest first. One that cannot be read is left out.
func (d *Document) decisions() []decision {
	var all []decision
	for _, text := range d.Decisions {
		var one decision
		if json.Unmarshal(text, &one) == nil {
			all = append(all, one)
		}
	}
	return all
}

// Summarize fills in Summary from the other fields.
func (d *Document) Summarize() {
	d.Summary = Summary{
		Mode: d.mode(), Pressure: d.pressure(), Nearest: d.nearest(), LastEviction: d.lastEviction(), LastTick: d.ago(d.LastTick),
	}
}

// mode says whether the agent evicts.
func (d *Document) mode() string {
	switch reason := d.Enforcement.Reason; {
	case d.Enforcement.On:
		return "acts"
	case reason == "":
		return unknown
	case reason == "Configured":
		return "dry run"
	default: // Stopped, StopUnknown
		return strings.ToLower(strings.ReplaceAll(reason, "Unknown", " unknown"))
	}
}

// pressure names the signals under pressure, and those that could not be read.
func (d *Document) pressure() string {
	var parts []string
	for i := range d.Signals {
		switch s := &d.Signals[i]; {
		case s.State == pressure.Unknown.String():
			parts = append(parts, s.Name.String()+" "+unknown)
		case s.Under:
			parts = append(parts, s.Name.String()+" "+cmp.Or(s.held(), "in grace or transition"))
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case d.LastTick.IsZero():
		return unknown
	default:
		return "none"
	}
}

// held is the kind of the threshold that holds, hard before soft; "" where none does.
func (s *Signal) held() string {
	for _, t := range s.Thresholds {
		if t.Holds {
			return strings.ToLower(t.Kind)
		}
	}
	return ""
}

// nearest says how far which signal is from which threshold: the one of which the least is left, as a
// part of what there is above it, so that signals of different units compare.
func (d *Document) nearest() string {
	text, least := unknown, 0.0
	for i := range d.Signals {
		s := &d.Signals[i]
		for _, t := range s.Thresholds {
			if s.Available == nil || s.Capacity == nil || t.Line == nil {
				continue
			}
			above := *s.Available - *t.Line
			if part := float64(above) / float64(max(1, *s.Capacity-*t.Line)); text == unknown || part < least {
				text, least = s.distance(above, t.Kind), part
			}
		}
	}
	return text
}

// distance says how far a signal is above a threshold, or below it.
func (s *Signal) distance(above int64, kind string) string {
	side := "above"
	if above < 0 {
		above, side = -above, "below"
	}
	text := fmt.Sprintf("%s %s %s %s", s.Name, wording.Amount(s.Name, above), side, strings.ToLower(kind))
	if s.ForecastSeconds != nil && *s.ForecastSeconds > 0 {
		text += ", hard in " + wording.Rounded(time.Duration(*s.ForecastSeconds*float64(time.Second))).String()
	}
	return text
}

// lastEviction says when which pod was evicted last.
func (d *Document) lastEviction() string {
	for _, one := range d.decisions() {
		if one.Verb == "Acted" && one.Victim != "" {
			return d.ago(one.Time) + " " + wording.OneLine(one.Victim) + map[bool]string{true: " (dry run)"}[one.DryRun]
		}
	}
	if len(d.Decisions) >= kept {
		return "before its last decisions"
	}
	return "none"
}

// ago says how long before the document a moment was.
func (d *Document) ago(moment time.Time) string {
	if moment.IsZero() {
		return unknown
	}
	return duration.HumanDuration(max(0, d.Time.Sub(moment))) + " ago"
}

// available says how much of a signal the node has left.
func (d *Document) available(signal pressure.Signal) string {
	s := d.signal(signal)
	if s == nil || s.Available == nil || s.Capacity == nil {
		return signal.String() + " " + unknown
	}
	return fmt.Sprintf("%s %s of %s", signal, wording.Figure(signal, *s.Available), wording.Figure(signal, *s.Capacity))
}
