package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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

// WriteTable prints the document for people: what `evictd status` prints. kubectl evictd reads its first lines.
func (d *Document) WriteTable(w io.Writer) error {
	s := d.signal(d.Short())
	if len(s.Thresholds) == 0 && len(d.Signals) > 0 {
		s = &d.Signals[0]
	}
	r := rows{
		{d.headline(s)},
		{"EVICTD", d.EvictdVersion + " " + d.Revision},
		{"MODE", d.mode()},
		{"PRESSURE", d.pressure()},
		{"LAST EVICTION", d.lastEviction()},
		{"LAST TICK", d.ago(d.LastTick)},
	}
	r.begin(len(d.Signals), "SIGNAL", "AVAILABLE", "CAPACITY", "THRESHOLD", "LINE", "MET", "MISSING")
	for i := range d.Signals {
		s, state := &d.Signals[i], strings.ToLower(d.Signals[i].State)
		r.addThresholds(s, s.Name.String(), figure(s.Name, s.Available, state), figure(s.Name, s.Capacity, state))
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
	return wording.Table(w, wording.Columns, r)
}

// headline says of the node what is available of a signal, and where its first line is.
func (d *Document) headline(s *Signal) string {
	is := strings.ToLower(s.State)
	if s.Available != nil && s.Capacity != nil {
		is = wording.Figure(s.Name, *s.Available) + " of " + wording.Amount(s.Name, *s.Capacity)
	}
	if len(s.Thresholds) > 0 {
		is += "; its " + strings.ToLower(s.Thresholds[0].Kind) + " threshold is " + figure(s.Name, s.Thresholds[0].Line, unknown)
	}
	return fmt.Sprintf("%s at %s: %s is %s", d.NodeName, d.Time.UTC().Format(time.RFC3339), s.Name, is)
}

// addThresholds adds those of a signal, behind the cells that tell it from others: since when each is met, and what is
// missing to its line or, where that is not known, why.
func (r *rows) addThresholds(s *Signal, name ...string) {
	for i := range s.Thresholds {
		t, state := &s.Thresholds[i], strings.ToLower(s.State)
		met, missing := "no", "-"
		switch {
		case s.Available == nil || t.Line == nil:
			met, missing = state, cmp.Or(s.Reason, state)
		case t.Since.IsZero() && t.Kind == "Hard" && s.ForecastSeconds != nil:
			met = fmt.Sprintf("no, in %.0fs", *s.ForecastSeconds)
		case !t.Since.IsZero():
			met = map[bool]string{false: "in grace "}[t.Holds] + "since " + clock(t.Since)
			missing = wording.Figure(s.Name, max(0, *t.Line-*s.Available))
		}
		r.add(append(name, strings.ToLower(t.Kind), figure(s.Name, t.Line, state), met, missing)...)
		name = make([]string, len(name)) // once
	}
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

// WriteRanking prints a signal with its thresholds, the candidates in the order of eviction and the protected pods: what
// `evictd rank` prints. Wide adds the columns for which [wording.Columns] have no room, and the reasons in full.
func (d *Document) WriteRanking(w io.Writer, signal pressure.Signal, wide bool) error {
	s, queues := d.signal(signal), len(d.Configuration.Queues) > 0
	r := rows{{d.headline(s)}}
	r.begin(len(s.Thresholds), "THRESHOLD", "LINE", "MET", "MISSING")
	r.addThresholds(s)
	r.add()
	hidden := map[string]bool{ // of two priorities not the one that counts in the queue
		"UID": !wide, "OWNER": !wide, "EXCEEDS": !wide, "WORKING SET": !wide, "RECLAIM": !wide, "GRACE": !wide,
		"QUEUE": !queues, "EFFECTIVE": !queues, "PRIORITY": !wide && queues,
	}
	table := d.Ranking.table(wide)
	for _, row := range table {
		var cells []string
		for i, cell := range row {
			if !hidden[table[0][i]] {
				cells = append(cells, cell)
			}
		}
		r.add(cells...)
	}
	return wording.Table(w, map[bool]int{false: wording.Columns}[wide], r)
}

// table has all columns of the ranking. All but wide leave out of the reasons the figures, which are columns.
func (r *Ranking) table(wide bool) rows {
	all := rows{{"RANK", "POD", "UID", "OWNER", "QUEUE", "EXCEEDS", "PRIORITY", "EFFECTIVE", "USAGE", "REQUEST", "OVER", "WORKING SET", "RECLAIM", "GRACE", "REASON"}}
	for _, e := range slices.Concat(r.Candidates, r.Protected) {
		position, exceeds, reason := "-", map[bool]string{false: "no", true: "yes"}[e.Exceeds], e.Reason
		of := func(n *int64) string { return figure(r.Signal, n, "-") }
		if e.Rank > 0 {
			position = strconv.Itoa(e.Rank)
		}
		if parts := strings.SplitN(e.Reason, "; ", 3); !wide && e.Rank > 0 {
			reason = strings.TrimPrefix(strings.Join(parts[min(2, len(parts)):], ""), "ahead of the next by: ")
		}
		all.add(position, e.Namespace+"/"+e.Name, e.UID, orDash(e.Owner), orDash(e.Queue), exceeds,
			strconv.FormatInt(int64(e.Priority), 10), strconv.FormatInt(int64(e.Effective), 10),
			of(e.Usage), of(&e.Request), of(e.Over), of(e.WorkingSet), of(e.Reclaim),
			strconv.FormatInt(e.Grace, 10)+"s", orDash(reason))
	}
	return all
}

// clock is a time of the day; a dash where it is not known.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.TimeOnly + "Z")
}

func orDash(s string) string { return cmp.Or(s, "-") }
