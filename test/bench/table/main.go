// Command table reads the output of `go test -bench -benchmem`, passes it on, and ends with
// a table of the benchmarks that have a budget. Allocations above it are a fault; times are
// only shown, because a busy machine is not. `make bench` runs it.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// budget is the limit of a benchmark; a time of 0 is no limit.
type budget struct {
	name   string
	what   string
	time   time.Duration
	allocs int64
}

// budgets returns the budgets of the steady state, in which nothing may be allocated per
// pod, and those of a decision.
func budgets() []budget {
	const perDecision = 13 * 110 // most of them are the maps of k8s.io/component-helpers/resource
	return []budget{
		{name: "SampleMemory", what: "one sample, memory"},
		{name: "Judge", what: "one judgement"},
		{name: "TickCalm110", what: "one tick, calm, 110 pods", allocs: 2},
		{name: "Collect110/real", what: "what 110 pods use, real cgroups", time: 2 * time.Millisecond, allocs: 3},
		{name: "Rank110", what: "ranking of 110 pods", time: 30 * time.Microsecond, allocs: 10},
		{name: "Rank5000", what: "ranking of 5,000 pods", time: 3 * time.Millisecond, allocs: 20},
		{name: "TickWaits110", what: "one tick under pressure, waiting for a victim", allocs: perDecision},
		{name: "TickDecides110", what: "one tick that decides, to its record", allocs: perDecision},
	}
}

// result is one line of a benchmark.
type result struct {
	name   string
	time   time.Duration
	bytes  int64
	allocs int64
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var results []result
	failed := false
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		_, _ = fmt.Fprintln(out, lines.Text())
		failed = failed || strings.HasPrefix(lines.Text(), "FAIL") || strings.HasPrefix(lines.Text(), "--- FAIL")
		if r, is := parse(lines.Text()); is {
			results = append(results, r)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the benchmarks: %w", err)
	}
	if failed {
		return errors.New("a benchmark failed")
	}
	return show(out, results)
}

// benchmark is a line such as
//
//	BenchmarkJudge-2   139783   401.6 ns/op   0 B/op   0 allocs/op
//
// with other units between, and the number of CPUs behind the name.
var benchmark = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op.*?\s(\d+) B/op\s+(\d+) allocs/op`)

// parse reads a line of a benchmark.
func parse(line string) (result, bool) {
	found := benchmark.FindStringSubmatch(line)
	if found == nil {
		return result{}, false
	}
	took, slow := strconv.ParseFloat(found[2], 64)
	bytes, many := strconv.ParseInt(found[3], 10, 64)
	allocs, more := strconv.ParseInt(found[4], 10, 64)
	return result{name: found[1], time: time.Duration(took), bytes: bytes, allocs: allocs}, errors.Join(slow, many, more) == nil
}

func show(out io.Writer, results []result) error {
	var rows [][]string
	var faults []error
	for _, b := range budgets() {
		at := slices.IndexFunc(results, func(r result) bool { return r.name == b.name })
		if at < 0 {
			faults = append(faults, fmt.Errorf("benchmark %s did not run", b.name))
			continue
		}
		r := results[at]
		timeBudget, allocs := "", "kept"
		if b.time > 0 {
			timeBudget = "≤ " + b.time.String() + ": kept"
			if r.time > b.time {
				timeBudget = "≤ " + b.time.String() + ": MISSED"
			}
		}
		if r.allocs > b.allocs {
			allocs = "MISSED"
			faults = append(faults, fmt.Errorf("%s allocates %d times, at most %d are allowed", b.name, r.allocs, b.allocs))
		}
		rows = append(rows, []string{
			b.what, "Benchmark" + b.name, r.time.String(), timeBudget, strconv.FormatInt(r.bytes, 10),
			strconv.FormatInt(r.allocs, 10), "≤ " + strconv.FormatInt(b.allocs, 10) + ": " + allocs,
		})
	}
	_, _ = fmt.Fprintf(out, "\n%s\n\n", measure.Machine())
	err := measure.Table(out, []string{"what", "benchmark", "time", "budget", "B/op", "allocations", "budget"}, rows)
	return errors.Join(append(faults, err)...)
}
