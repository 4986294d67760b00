package status

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

const unknown = "unknown"

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

// mode says whether the agent evicts.
func (d *Document) mode() string {
	mode, why := "acts", d.Enforcement.Why
	switch reason := d.Enforcement.Reason; reason {
	case acting.Acts:
	case acting.Configured:
		mode = "dry run"
	default: // Stopped, StopUnknown
		mode = strings.ToLower(strings.ReplaceAll(string(reason), "Unknown", " unknown"))
	}
	if d.ConfigurationRefused != "" {
		mode, why = mode+", the file is refused and the one before applies", strings.TrimPrefix(why+"; "+d.ConfigurationRefused, "; ")
	}
	return strings.TrimSuffix(mode+": "+why, ": ")
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

// lastEviction says when which pod was evicted last, by the decisions that are kept.
func (d *Document) lastEviction() string {
	for _, one := range d.decisions() {
		if one.Verb == "Acted" && one.Victim != "" {
			return d.ago(one.Time) + " " + wording.OneLine(one.Victim) + map[bool]string{true: " (dry run)"}[one.DryRun]
		}
	}
	return "none lately"
}

// ago says how long before the document a moment was.
func (d *Document) ago(moment time.Time) string {
	if moment.IsZero() {
		return unknown
	}
	return duration.HumanDuration(max(0, d.Time.Sub(moment))) + " ago"
}
