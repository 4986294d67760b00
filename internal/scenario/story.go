package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/sim"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
)

// Story writes what happens in a scenario as it happens, a line each: for people, or JSON for machines.
type Story struct {
	W    io.Writer
	JSON bool
	// Err is the first error of the writer; nil while there is none.
	Err error
}

// line is an event as JSON.
type line struct {
	Seconds float64 `json:"seconds"`
	Pod     string  `json:"pod,omitempty"`
	// Verb, Hold and Outcome are a decision's; "" for all else.
	Verb    string `json:"verb,omitempty"`
	Hold    string `json:"hold,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Text    string `json:"text"`
}

// Tell writes an event.
func (s *Story) Tell(e sim.Event) {
	all := []string{strings.TrimSpace(e.Pod + " " + e.Text)}
	if e.Decision != nil {
		all = decided(e.Decision)
	}
	for _, text := range all {
		var err error
		if s.JSON {
			err = json.NewEncoder(s.W).Encode(lineOf(&e, text))
		} else {
			err = wording.Table(s.W, wording.Columns, [][]string{{fmt.Sprintf("%3d:%04.1f", int(e.At.Minutes()), (e.At % time.Minute).Seconds()), text}})
		}
		if s.Err == nil {
			s.Err = err
		}
	}
}

// lineOf returns an event's line. Of a decision it has the last request.
func lineOf(e *sim.Event, text string) line {
	l := line{Seconds: e.At.Seconds(), Pod: e.Pod, Text: text}
	if d := e.Decision; d != nil {
		l.Verb, l.Hold = string(d.Verb()), string(d.Hold)
		if last := d.Last(); last != nil {
			l.Pod, l.Outcome = last.Entry.Pod.Key(), string(last.Result.Outcome)
		}
	}
	return l
}

// decided says what a decision of evictd's came to.
func decided(d *decide.Decision) (all []string) {
	p := &d.Pressure
	switch {
	case d.Hold == decide.HoldReclaimInProgress: // its end is told
		return nil
	case d.Verb() == decide.Held:
		return []string{strings.TrimSuffix("evictd holds, "+string(d.Hold)+": "+d.Detail, ": ")}
	}
	for i := range d.Attempts {
		a := &d.Attempts[i]
		pod, r := a.Entry.Pod, &a.Result
		said := "asks for " + pod.Key() + ", and the API server answers " + string(r.Outcome)
		if r.NoResponse {
			said = "asks for " + pod.Key() + ", and the API server does not answer"
		}
		switch {
		case r.Outcome.Accepted() && a.Escalates:
			said = fmt.Sprintf("shortens the grace period of %s to %d s", pod.Key(), a.Grace())
		case r.Outcome.Simulated():
			said = "would evict " + pod.Key()
		case r.Outcome == evict.Deleted:
			said = "deletes " + pod.Key() + ", in spite of its budget"
		case r.Outcome.Accepted():
			said = "evicts " + pod.Key()
		case r.Budget != "":
			said += " by the budget " + r.Budget
		}
		all = append(all, fmt.Sprintf("evictd %s: %s", said, a.Entry.Why()))
	}
	all[0] += fmt.Sprintf(" (%s is %s, its line %s)", p.Threshold.Signal, wording.Figure(p.Threshold.Signal, p.Observed.Available), wording.Figure(p.Threshold.Signal, p.Threshold.Quantity.Of(p.Observed.Capacity)))
	return append(all, d.Notes...)
}

// Arms are the results of the arms that played a scenario.
type Arms map[sim.Arm]*sim.Result

// rows are what the table has of each arm.
func rows(r *sim.Result) [][2]string {
	all := 0
	for _, pods := range r.Victims {
		all += len(pods)
	}
	return [][2]string{
		{"pods and containers ended", strconv.Itoa(all)},
		{"innocents: ended within their request", strconv.Itoa(len(r.Innocents))},
		{"OOM kills among them", strconv.Itoa(r.OOMKills)},
		{"time below a hard line of evictd's", r.Below.Duration.String()},
	}
}

// Write writes the figures: for people a table with a column for each arm, for machines one JSON document.
func (a Arms) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(map[string]Arms{"arms": a})
	}
	table := [][]string{nil, {""}}
	for _, arm := range []sim.Arm{sim.Both, sim.KubeletAlone, sim.Ideal} {
		if a[arm] == nil {
			continue
		}
		table[1] = append(table[1], strings.ToUpper(string(arm)))
		for i, row := range rows(a[arm]) {
			if len(table) == i+2 {
				table = append(table, []string{row[0]})
			}
			table[i+2] = append(table[i+2], row[1])
		}
	}
	return wording.Table(w, wording.Columns, table)
}
