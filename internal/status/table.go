package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// shown is how many candidates and decisions [Document.WriteTable] shows.
const shown = 5

// rows are lines of cells; a line without cells separates two tables.
type rows [][]string

func (r *rows) add(cells ...string) { *r = append(*r, cells) }

// begin begins a table for so many entries, unless there is none.
func (r *rows) begin(entries int, header ...string) {
	if entries > 0 {
		*r = append(*r, nil, header)
	}
}

// write prints the rows; text from pods cannot break one.
func (r *rows) write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range *r {
		for i := range row {
			row[i] = wording.OneLine(row[i])
		}
		if _, err := fmt.Fprintln(table, strings.Join(row, "\t")); err != nil {
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	return table.Flush()
}

// WriteTable prints the document for people: what `evictd status` prints. kubectl evictd reads its first lines.
func (d *Document) WriteTable(w io.Writer) error {
	r := rows{
		{"NODE", d.NodeName},
		{"TIME", d.Time.UTC().Format(time.RFC3339)},
		{"EVICTD", d.EvictdVersion + " " + d.Revision},
		{"MODE", strings.TrimSuffix(d.mode()+": "+d.Enforcement.Why, ": ")},
		{"PRESSURE", d.pressure()},
		{"LAST EVICTION", d.lastEviction()},
		{"LAST TICK", d.ago(d.LastTick)},
	}
	r.begin(len(d.Signals), "SIGNAL", "AVAILABLE", "CAPACITY", "THRESHOLDS")
	for i := range d.Signals {
		s := &d.Signals[i]
		state := strings.ToLower(s.State)
		r.add(s.Name.String(), figure(s.Name, s.Available, state), figure(s.Name, s.Capacity, state), cmp.Or(s.Reason, s.lines()))
	}
	r.begin(len(d.InFlight), "IN FLIGHT", "FOR", "PHASE", "SINCE", "DEADLINE", "FREES")
	for i := range d.InFlight {
		r.addVictim(&d.InFlight[i], d.Time)
	}
	r.begin(len(d.BackOffs), "BACK-OFF", "NAME", "UNTIL", "WHY")
	for _, b := range d.BackOffs {
		r.add(strings.ToLower(b.Of), orDash(b.Name), clock(b.Until), b.Why)
	}
	d.addNext(&r)
	last := d.decisions()
	r.begin(len(last), "DECIDED", "VERB", "SIGNAL", "WHAT")
	for _, one := range last[:min(shown, len(last))] {
		r.add(clock(one.Time), one.Verb, one.Signal+" "+strings.ToLower(one.Kind), cmp.Or(one.Victim, strings.Trim(one.Hold+": "+one.Detail, ": "), "-"))
	}
	return r.write(w)
}

// addNext adds the first of the ranking.
func (d *Document) addNext(r *rows) {
	if d.Ranking == nil {
		r.begin(1, "NEXT", cmp.Or(d.Unranked, unknown))
		return
	}
	r.begin(1, "NEXT", "POD", fmt.Sprintf("FOR %s, %d CANDIDATES", d.Ranking.Signal, len(d.Ranking.Candidates)))
	for i := range min(shown, len(d.Ranking.Candidates)) {
		e := &d.Ranking.Candidates[i]
		r.add(strconv.Itoa(e.Rank), e.Namespace+"/"+e.Name, e.Reason)
	}
}

// figure is an amount of a signal, or what stands for one that is not known: never 0.
func figure(signal pressure.Signal, n *int64, none string) string {
	if n == nil {
		return none
	}
	return wording.Figure(signal, *n)
}

// lines are the thresholds, and where they stand.
func (s *Signal) lines() string {
	var lines []string
	for _, t := range s.Thresholds {
		text := strings.ToLower(t.Kind)
		if t.Line != nil {
			text += " " + wording.Figure(s.Name, *t.Line)
		}
		switch {
		case t.Holds:
			text += " holds, met since " + clock(t.Since)
		case !t.Since.IsZero():
			text += " in grace, met since " + clock(t.Since)
		}
		lines = append(lines, text)
	}
	if s.ForecastSeconds != nil && *s.ForecastSeconds > 0 {
		lines = append(lines, fmt.Sprintf("hard in %.0fs", *s.ForecastSeconds))
	}
	return strings.Join(lines, ", ")
}

// addVictim adds a pod in flight, with what its end should still free.
func (r *rows) addVictim(v *decide.Victim, now time.Time) {
	phase, frees := string(v.Phase), "-"
	if v.Phase == decide.Terminating && v.Stuck(now) {
		phase = "overdue"
	}
	if signal, err := pressure.ParseSignal(v.Signal); err == nil {
		if n, known := v.Expected.Of(signal); known {
			frees = wording.Amount(signal, n)
		}
	}
	r.add(v.Key(), orDash(v.Signal), phase, clock(v.Accepted), clock(v.Deadline), frees)
}

// WriteTable prints the candidates in the order of eviction, then the protected pods: what `evictd rank`
// prints. Wide adds UIDs, owners and both figures of memory.
func (r *Ranking) WriteTable(w io.Writer, wide bool) error {
	all := rows{{"RANK", "POD", "UID", "OWNER", "QUEUE", "EXCEEDS", "PRIORITY", "EFFECTIVE", "USAGE", "REQUEST", "OVER", "WORKING SET", "RECLAIM", "GRACE", "REASON"}}
	for _, e := range slices.Concat(r.Candidates, r.Protected) {
		position, exceeds := "-", "no"
		of := func(n *int64) string { return figure(r.Signal, n, "-") }
		if e.Rank > 0 {
			position = strconv.Itoa(e.Rank)
		}
		if e.Exceeds {
			exceeds = "yes"
		}
		all.add(position, e.Namespace+"/"+e.Name, e.UID, orDash(e.Owner), orDash(e.Queue), exceeds,
			strconv.FormatInt(int64(e.Priority), 10), strconv.FormatInt(int64(e.Effective), 10),
			of(e.Usage), of(&e.Request), of(e.Over), of(e.WorkingSet), of(e.Reclaim),
			strconv.FormatInt(e.Grace, 10)+"s", e.Reason)
	}
	for i, row := range all {
		if !wide {
			all[i] = slices.Concat(row[:2], row[4:11], row[13:])
		}
	}
	return all.write(w)
}

// clock is a time of the day; a dash where it is not known.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.TimeOnly + "Z")
}

func orDash(s string) string { return cmp.Or(s, "-") }
