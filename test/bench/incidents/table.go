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

// publish makes the table from the results.
func publish(s *settings) error {
	results, err := readResults(s.results)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err = report(&text, results); err != nil {
		return err
	}
	if s.page == "" {
		_, err = text.WriteTo(os.Stdout)
		return err
	}
	page, err := os.ReadFile(s.page)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	head, rest, begins := strings.Cut(string(page), pageBegins)
	_, tail, ends := strings.Cut(rest, pageEnds)
	if !begins || !ends {
		return errors.New("writing the page: it has no markers")
	}
	whole := head + pageBegins + text.String() + pageEnds + tail
	if err = os.WriteFile(s.page, []byte(whole), 0o644); err != nil { //nolint:gosec // it is for reading
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// column is one of the table's: figures of a run, with a slash between them.
type column struct {
	title   string
	digits  int
	figures []func(*Result) float64
	level   bool // its figures do not add up
}

func columns() []column {
	byCause := func(value func(tally) int) (figures []func(*Result) float64) {
		for _, cause := range causes() {
			figures = append(figures, func(r *Result) float64 { return float64(value(r.by(cause))) })
		}
		return figures
	}
	one := func(figures ...func(*Result) float64) []func(*Result) float64 { return figures }
	return []column{
		{"smallest set", 0, one(func(r *Result) float64 { return float64(r.wanted()) }), false},
		{"ended by evictd / kubelet / kernel / other", 0, byCause(func(t tally) int { return t.ended }), false},
		{"of them beyond the smallest set", 0, byCause(func(t tally) int { return t.beyond }), false},
		{"of them innocents", 0, byCause(func(t tally) int { return t.innocent }), false},
		{"OOM kills", 0, one(func(r *Result) float64 { return float64(r.OOMKills) }), false},
		{"budgets violated", 0, one(func(r *Result) float64 { return float64(r.Violated) }), false},
		{"grace kept / ended by evictd and kubelet", 0, one(
			func(r *Result) float64 { return float64(r.by(byEvictd, byKubelet).graceful) },
			func(r *Result) float64 { return float64(r.by(byEvictd, byKubelet).ended) },
		), false},
		{"s below evictd's hard line", 1, one(func(r *Result) float64 { return r.line(hardLine).Below }), false},
		{"s below the kubelet's line", 1, one(func(r *Result) float64 { return r.line(kubeletLine).Below }), false},
		{"MiB below it", 0, one(func(r *Result) float64 { return float64(r.line(kubeletLine).Depth >> 20) }), true},
		{"requests failed", 0, one(func(r *Result) float64 { return float64(r.Failed) }), false},
		{"MiB of other work", 0, one(func(r *Result) float64 { return float64(r.Disturbed >> 20) }), true},
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
	_, _ = fmt.Fprint(out, "\nThe scenarios:\n\n")
	for _, s := range catalogue() {
		_, _ = fmt.Fprintf(out, "- %d, %s: %s\n", s.Number, s.Name, s.What)
	}
	return nil
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
			if len(runs) > 0 {
				figures = append(figures, show(measure.Each(runs, figure), c.digits))
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
