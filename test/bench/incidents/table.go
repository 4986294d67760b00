package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/test/internal/measure"
)

// The generated part of the page is between these lines.
const (
	pageBegins = "<!-- made by `make bench-incidents`: begin -->\n"
	pageEnds   = "<!-- made by `make bench-incidents`: end -->\n"
)

// publish makes the table and the summary from the results.
func publish(s *settings) error {
	results, err := readResults(s.results)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		page  string // "" is the output
		write func(io.Writer, []Result) error
	}{{s.page, report}, {s.summary, summary}} {
		var text bytes.Buffer
		err = errors.Join(err, part.write(&text, results))
		if part.page == "" {
			_, _ = text.WriteTo(os.Stdout)
		} else if err == nil {
			err = replace(part.page, text.String())
		}
	}
	return err
}

// replace writes the generated part of a page.
func replace(name, text string) error {
	page, err := os.ReadFile(name) //nolint:gosec // the caller's own page
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	head, rest, begins := strings.Cut(string(page), pageBegins)
	_, tail, ends := strings.Cut(rest, pageEnds)
	if !begins || !ends {
		return fmt.Errorf("writing %s: it has no markers", name)
	}
	if err := os.WriteFile(name, []byte(head+pageBegins+text+pageEnds+tail), 0o644); err != nil { //nolint:gosec // it is for reading
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// column is one of the table's: figures of a run, with a slash between them.
type column struct {
	title   string
	digits  int
	figures []func(*Result) []float64 // none where the run has none
	level   bool                      // its figures do not add up
}

func columns() []column {
	one := func(figure func(*Result) float64) func(*Result) []float64 {
		return func(r *Result) []float64 { return []float64{figure(r)} }
	}
	single := func(title string, digits int, figure func(*Result) float64) column {
		return column{title: title, digits: digits, figures: []func(*Result) []float64{one(figure)}}
	}
	byCause := func(title string, value func(tally) int) (c column) {
		c.title = title
		for _, cause := range causes() {
			c.figures = append(c.figures, one(func(r *Result) float64 { return float64(value(r.by(cause))) }))
		}
		return c
	}
	level := func(c column) column { c.level = true; return c }
	return []column{
		single("smallest set", 0, func(r *Result) float64 { return float64(r.wanted()) }),
		byCause("ended by evictd / kubelet / kernel / other", func(t tally) int { return t.ended }),
		byCause("of them beyond the smallest set", func(t tally) int { return t.beyond }),
		byCause("of them innocents", func(t tally) int { return t.innocent }),
		single("OOM kills", 0, func(r *Result) float64 { return float64(r.OOMKills) }),
		single("budgets violated", 0, func(r *Result) float64 { return float64(r.Violated) }),
		{title: "grace kept / ended by evictd and kubelet", figures: []func(*Result) []float64{
			one(func(r *Result) float64 { return float64(r.by(byEvictd, byKubelet).graceful) }),
			one(func(r *Result) float64 { return float64(r.by(byEvictd, byKubelet).ended) }),
		}},
		{title: "s from evictd's hard line to the first end", digits: 1, figures: []func(*Result) []float64{(*Result).late}, level: true},
		single("s below evictd's hard line", 1, func(r *Result) float64 { return r.line(hardLine).Below }),
		single("s below the kubelet's line", 1, func(r *Result) float64 { return r.line(kubeletLine).Below }),
		level(single("MiB below it", 0, func(r *Result) float64 { return float64(r.line(kubeletLine).Depth >> 20) })),
		single("requests failed", 0, func(r *Result) float64 { return float64(r.Failed) }),
		level(single("MiB of other work", 0, func(r *Result) float64 { return float64(r.Disturbed >> 20) })),
	}
}

// report writes where the results are from, the table and the scenarios.
func report(out io.Writer, results []Result) error {
	for _, line := range origins(results) {
		_, _ = fmt.Fprintln(out, line)
	}
	_, _ = fmt.Fprintln(out)
	header := []string{"", "scenario", "lines of", "arm", "runs"}
	for _, c := range columns() {
		header = append(header, c.title)
	}
	var rows [][]string
	for _, s := range catalogue() {
		for _, arm := range s.arms() {
			runs := chosen(results, func(r *Result) bool { return r.Scenario == s.Number && r.Arm == arm })
			rows = append(rows, append([]string{strconv.Itoa(s.Number), s.Name, s.signal(), arm}, cells(runs, spread)...))
		}
	}
	for _, arm := range []string{kubeletArm, evictdArm} {
		runs := chosen(results, func(r *Result) bool { return r.Arm == arm && compared(r, results) })
		rows = append(rows, append([]string{"", "sums of all runs that both arms have", "", arm}, cells(runs, sum)...))
	}
	if err := measure.Table(out, header, rows); err != nil {
		return err
	}
	_, _ = fmt.Fprint(out, "\nWhat evictd should reach, over all runs that both arms have. Evictions are the kubelet's in its arm, evictd's in the other:\n\n")
	if err := goals(out, results); err != nil {
		return err
	}
	_, _ = fmt.Fprint(out, "\nThe scenarios, and what happened in the first run of each arm, in seconds from its begin:\n\n")
	for _, s := range catalogue() {
		s.tell(out, results)
	}
	return nil
}

// goal is what evictd should reach with a figure that is better when it is smaller.
type goal struct {
	title, limit string
	figure       func(*Result) float64
	most         func(kubelet float64, wanted int) float64 // of the kubelet's sum, and of the pods of the smallest sets
}

func goalsOf() []goal {
	none := func(float64, int) float64 { return 0 }
	half := func(kubelet float64, _ int) float64 { return kubelet / 2 }
	below := func(which int) func(*Result) float64 {
		return func(r *Result) float64 { return r.line(which).Below }
	}
	return []goal{
		{
			"evictions beyond the smallest sets", "5 % of these", func(r *Result) float64 { return float64(r.own().beyond) },
			func(_ float64, wanted int) float64 { return 0.05 * float64(wanted) },
		},
		{"evictions of innocents", "0", func(r *Result) float64 { return float64(r.own().innocent) }, none},
		{"evictions without their grace", "0", func(r *Result) float64 { t := r.own(); return float64(t.ended - t.graceful) }, none},
		{"budgets violated", "0", func(r *Result) float64 { return float64(r.Violated) }, none},
		{
			"OOM kills", "the kubelet's", func(r *Result) float64 { return float64(r.OOMKills) },
			func(kubelet float64, _ int) float64 { return kubelet },
		},
		{"s below evictd's hard line", "half of the kubelet's", below(hardLine), half},
		{"s below the kubelet's line", "half of the kubelet's", below(kubeletLine), half},
	}
}

// own counts what the arm itself has evicted: in evictd's the kubelet may evict too.
func (r *Result) own() tally {
	if r.Arm == kubeletArm {
		return r.by(byKubelet)
	}
	return r.by(byEvictd)
}

// goals writes what evictd should reach, by how much its sum misses that, and which scenarios miss it.
func goals(out io.Writer, results []Result) error {
	both := chosen(results, func(r *Result) bool { return r.Arm != byNodeArm && compared(r, results) })
	var rows [][]string
	for _, g := range goalsOf() {
		sums := func(scenario int) (of [2]float64, wanted int) {
			for i := range both {
				switch r := &both[i]; {
				case scenario != 0 && r.Scenario != scenario:
				case r.Arm == kubeletArm:
					of[0] += g.figure(r)
				default:
					of[1], wanted = of[1]+g.figure(r), wanted+r.wanted()
				}
			}
			return of, wanted
		}
		var missed []string
		for _, s := range catalogue() {
			if of, wanted := sums(s.Number); of[1] > g.most(of[0], wanted) {
				missed = append(missed, strconv.Itoa(s.Number))
			}
		}
		all, wanted := sums(0)
		result := "pass"
		if beyond := all[1] - g.most(all[0], wanted); beyond > 0 {
			result = "missed by " + rounded(beyond, 0)
		}
		rows = append(rows, []string{g.title, g.limit, rounded(all[0], 0), rounded(all[1], 0), result, strings.Join(missed, ", ")})
	}
	return measure.Table(out, []string{"figure", "at most", kubeletArm, evictdArm, "the sum", "scenarios that miss it"}, rows)
}

// tell writes what happens in a scenario, and a timeline of each arm.
func (s *Scenario) tell(out io.Writer, results []Result) {
	_, _ = fmt.Fprintf(out, "- %d, %s: %s\n", s.Number, s.Name, s.What)
	for _, arm := range s.arms() {
		for _, r := range chosen(results, func(r *Result) bool { return r.Scenario == s.Number && r.Arm == arm && r.Run == 1 }) {
			_, _ = fmt.Fprintf(out, "  - %s: %s\n", arm, r.told())
		}
	}
}

// told is the timeline in one line. What happens again at once is said once, with how often.
func (r *Result) told() string {
	const most = 14
	var moments []string
	for i := 0; i < len(r.Timeline); {
		m, again := &r.Timeline[i], 1
		for i += 1; i < len(r.Timeline) && r.Timeline[i].What == m.What; i++ {
			again++
		}
		text := fmt.Sprintf("%.1f %s", m.At, m.What)
		if again > 1 {
			text += fmt.Sprintf(" (%d times)", again)
		}
		moments = append(moments, text)
	}
	if more := len(moments) - most; more > 0 {
		moments = append(moments[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(moments, "; ")
}

// summary compares the two arms over all runs that both have.
func summary(out io.Writer, results []Result) error {
	header, rows := []string{"", "pods that ended"}, [][]string{}
	of := func(value func(tally) int) func(*Result) float64 {
		return func(r *Result) float64 { return float64(value(r.by(causes()...))) }
	}
	figures := []func(*Result) float64{of(func(t tally) int { return t.ended })}
	for _, more := range []struct {
		title  string
		figure func(*Result) float64
	}{
		{"beyond the smallest set", of(func(t tally) int { return t.beyond })},
		{"innocent", of(func(t tally) int { return t.innocent })},
		{"of these by evictd", func(r *Result) float64 { return float64(r.by(byEvictd).innocent) }},
		{"without their grace", of(func(t tally) int { return t.ended - t.graceful })},
		{"OOM kills", func(r *Result) float64 { return float64(r.OOMKills) }},
		{"budgets violated", func(r *Result) float64 { return float64(r.Violated) }},
		{"s below evictd's hard line", func(r *Result) float64 { return r.line(hardLine).Below }},
	} {
		header, figures = append(header, more.title), append(figures, more.figure)
	}
	for _, arm := range [][2]string{{kubeletArm, "kubelet alone"}, {evictdArm, "with evictd"}} {
		runs := chosen(results, func(r *Result) bool { return r.Arm == arm[0] && compared(r, results) })
		scenarios := measure.Each(runs, func(r *Result) int { return r.Scenario })
		slices.Sort(scenarios)
		header[0] = fmt.Sprintf("%d runs of %d incidents", len(runs), len(slices.Compact(scenarios)))
		row := []string{arm[1]}
		for _, figure := range figures {
			row = append(row, sum(measure.Each(runs, figure), 0))
		}
		rows = append(rows, row)
	}
	return measure.Table(out, header, rows)
}

// cells are those of a row: how many runs there are, and one of each column.
func cells(runs []Result, all func([]float64, int) string) []string {
	texts := []string{strconv.Itoa(len(runs))}
	for _, c := range columns() {
		var figures []string
		show := all
		if c.level {
			show = spread
		}
		for _, figure := range c.figures {
			var values []float64
			for i := range runs {
				values = append(values, figure(&runs[i])...)
			}
			if len(values) > 0 {
				figures = append(figures, show(values, c.digits))
			}
		}
		texts = append(texts, strings.Join(figures, " / "))
	}
	return texts
}

func chosen(results []Result, wants func(*Result) bool) []Result {
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !wants(&r) })
}

// compared reports whether the run was done in both of the arms that all scenarios have, of one source.
func compared(r *Result, results []Result) bool {
	return slices.ContainsFunc(results, func(o Result) bool {
		return o.Scenario == r.Scenario && o.Run == r.Run && o.Source == r.Source && o.Arm != r.Arm && o.Arm != byNodeArm
	})
}

// origins says of which source, commits and machines the results are.
func origins(results []Result) (lines []string) {
	commits := map[string][]string{}
	for i := range results {
		r := &results[i]
		from := fmt.Sprintf("source %s; %s; Kubernetes %s", cmp.Or(r.Source, "unknown"), r.Machine, r.Kubernetes)
		commits[from] = append(commits[from], r.Commit)
	}
	for from, of := range commits {
		runs := len(of)
		slices.Sort(of)
		lines = append(lines, fmt.Sprintf("- %d runs of commits %s; %s", runs, strings.Join(slices.Compact(of), ", "), from))
	}
	slices.Sort(lines)
	return lines
}

func rounded(value float64, digits int) string { return strconv.FormatFloat(value, 'f', digits, 64) }

// spread is the median with the range, where there is one.
func spread(values []float64, digits int) string {
	low, high := rounded(slices.Min(values), digits), rounded(slices.Max(values), digits)
	if low == high {
		return low
	}
	return fmt.Sprintf("%s (%s–%s)", rounded(measure.Median(values), digits), low, high)
}

func sum(values []float64, digits int) string {
	all := 0.0
	for _, value := range values {
		all += value
	}
	return rounded(all, digits)
}

// wanted is how many pods the smallest set has; one that may end any number of times is none.
func (r *Result) wanted() (all int) {
	for _, n := range r.Smallest {
		all += max(0, n)
	}
	return all
}
