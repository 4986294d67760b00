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

// report writes where the results are from, the table, the sums and the scenarios.
func report(out io.Writer, results []Result) error {
	for _, line := range origins(results) {
		_, _ = fmt.Fprintln(out, line)
	}
	_, _ = fmt.Fprintln(out)
	header := []string{
		"", "scenario", "lines of", "arm", "runs", "ended by evictd / kubelet / kernel / other", "of them beyond the smallest set", "of them innocents",
		"OOM kills", "budgets violated", "grace kept", "s below evictd's hard line", "s below the kubelet's line", "MiB below it",
		"s to relief", "requests failed", "GiB·s of work lost", "longest gap, pod / kubelet, s", "s a run", "load", "MiB of other work",
	}
	var rows [][]string
	for _, s := range catalogue() {
		for _, arm := range s.arms() {
			line := row(&s, arm, of(results, s.Number, arm))
			rows = append(rows, append(line, make([]string, len(header)-len(line))...))
		}
	}
	if err := measure.Table(out, header, rows); err != nil {
		return err
	}
	summarize(out, results)
	_, _ = fmt.Fprintln(out, "\nThe scenarios:")
	_, _ = fmt.Fprintln(out)
	for _, s := range catalogue() {
		_, _ = fmt.Fprintf(out, "- %d, %s: %s\n", s.Number, s.Name, s.What)
	}
	return nil
}

func of(results []Result, scenario int, arm string) []Result {
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Scenario != scenario || r.Arm != arm })
}

// origin is what the results of one series have in common.
type origin struct{ source, machine, kubernetes string }

// origins says of which source, commits and machines the results are, and how busy these were.
func origins(results []Result) []string {
	series := map[origin][]*Result{}
	busy, steal, off := []float64{}, []float64{}, int64(0)
	for i := range results {
		r := &results[i]
		from := origin{cmp.Or(r.Source, "unknown"), r.Machine, r.Kubernetes}
		series[from] = append(series[from], r)
		busy, steal, off = append(busy, r.Busy), append(steal, r.Steal), max(off, r.Disturbed)
	}
	var lines []string
	for from, runs := range series {
		lines = append(lines, fmt.Sprintf("- %d runs of source %s: commits %s; %s; %s; Kubernetes %s", len(runs), from.source,
			distinct(runs, func(r *Result) string { return r.Commit }),
			distinct(runs, func(r *Result) string { return cmp.Or(r.Evictd, "evictd's version not kept") }),
			from.machine, from.kubernetes))
	}
	slices.Sort(lines)
	if len(results) > 0 {
		lines = append(lines, fmt.Sprintf("- CPU busy %s %%, stolen by the host %s %%; other work changed what was available by %d MiB at most, before the ballast gave way",
			spread(busy, 0), spread(steal, 1), off>>20))
	}
	return lines
}

// distinct lists what the results say, each once.
func distinct(runs []*Result, says func(*Result) string) string {
	var all []string
	for _, r := range runs {
		all = append(all, says(r))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// row is one line of the table: a scenario in one arm, medians with the range.
func row(s *Scenario, arm string, runs []Result) []string {
	line := []string{strconv.Itoa(s.Number), s.Name, s.signal(), arm, strconv.Itoa(len(runs))}
	if len(runs) == 0 {
		return append(line, "not run yet")
	}
	each := func(digits int, value func(*Result) float64) string {
		return spread(measure.Each(runs, value), digits)
	}
	byCause := func(value func(tally) int) string {
		texts := make([]string, 0, len(causes()))
		for _, cause := range causes() {
			texts = append(texts, each(0, func(r *Result) float64 { return float64(value(r.by(cause))) }))
		}
		return strings.Join(texts, " / ")
	}
	kept, all := 0, 0
	for i := range runs {
		granted := runs[i].by(byEvictd, byKubelet)
		kept, all = kept+granted.graceful, all+granted.ended
	}
	grace := "–"
	if all > 0 {
		grace = fmt.Sprintf("%d of %d", kept, all)
	}
	return append(line,
		byCause(func(t tally) int { return t.ended }),
		byCause(func(t tally) int { return t.beyond }),
		byCause(func(t tally) int { return t.innocent }),
		each(0, func(r *Result) float64 { return float64(r.OOMKills) }),
		each(0, func(r *Result) float64 { return float64(r.Violated) }),
		grace,
		each(1, func(r *Result) float64 { return r.line(hardLine).Below }),
		each(1, func(r *Result) float64 { return r.line(kubeletLine).Below }),
		each(0, func(r *Result) float64 { return float64(r.line(kubeletLine).Depth >> 20) }),
		each(1, (*Result).relief),
		each(0, func(r *Result) float64 { return float64(r.Failed) }),
		each(1, func(r *Result) float64 { return workLost(r.Ends) }),
		each(1, func(r *Result) float64 { return r.PodGap })+" / "+each(1, func(r *Result) float64 { return r.KubeletGap }),
		each(0, func(r *Result) float64 { return r.Seconds }),
		each(0, func(r *Result) float64 {
			var last float64
			_, _ = fmt.Sscan(r.Load, &last) // 0 where it is unknown
			return last
		}),
		each(0, func(r *Result) float64 { return float64(r.Disturbed >> 20) }),
	)
}

// spread is the median with the range, where there is one.
func spread(values []float64, digits int) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	low, high := number(slices.Min(values)), number(slices.Max(values))
	if low == high {
		return low
	}
	return fmt.Sprintf("%s (%s–%s)", number(measure.Median(values)), low, high)
}

// summarize adds up the arms that all scenarios have, over the runs that both of them have, of one source.
func summarize(out io.Writer, results []Result) {
	compared := []string{kubeletArm, evictdArm}
	_, _ = fmt.Fprintln(out, "\nOver all runs that both arms have:")
	_, _ = fmt.Fprintln(out)
	for _, arm := range compared {
		runs := slices.DeleteFunc(slices.Clone(results), func(r Result) bool {
			return r.Arm != arm || !slices.ContainsFunc(results, func(o Result) bool {
				return o.Scenario == r.Scenario && o.Run == r.Run && o.Arm != r.Arm && slices.Contains(compared, o.Arm) && o.Source == r.Source
			})
		})
		sum := func(value func(*Result) int) (all int) {
			for _, n := range measure.Each(runs, value) {
				all += n
			}
			return all
		}
		texts := make([]string, 0, len(causes()))
		for _, cause := range causes() {
			texts = append(texts, fmt.Sprintf("%s ended %d pods, %d of them beyond the smallest sets and %d innocents", cause,
				sum(func(r *Result) int { return r.by(cause).ended }), sum(func(r *Result) int { return r.by(cause).beyond }),
				sum(func(r *Result) int { return r.by(cause).innocent })))
		}
		below := 0.0
		for i := range runs {
			below += runs[i].line(hardLine).Below
		}
		_, _ = fmt.Fprintf(out, "- %s: the smallest sets have %d pods; %s; %d OOM kills; %d budgets violated; grace kept %d of %d; %.1f s below evictd's hard line\n",
			arm, sum((*Result).wanted), strings.Join(texts, "; "), sum(func(r *Result) int { return int(r.OOMKills) }), sum(func(r *Result) int { return r.Violated }),
			sum(func(r *Result) int { return r.by(byEvictd, byKubelet).graceful }), sum(func(r *Result) int { return r.by(byEvictd, byKubelet).ended }), below)
	}
}

// wanted is how many pods the smallest set has; one that may end any number of times is none.
func (r *Result) wanted() (all int) {
	for _, n := range r.Smallest {
		all += max(0, n)
	}
	return all
}
