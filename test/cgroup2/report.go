package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// report forwards the output of the tests, keeps all of it in a file and records the results
// of the scenarios.
type report struct {
	log     *os.File
	began   time.Time
	line    []byte // the last one, without its end
	names   []string
	results map[string]result // by scenario name
	skipped map[string]string // the skipped part, by scenario name
	others  map[string]int    // number of other tests, by verdict
	exit    string            // the virtual machine's exit message; "" when there was none
}

// result is how a test ended; the zero value is that of a test that did not run.
type result struct{ verdict, took string }

// newReport expects the scenarios that match the pattern, and lists the test binaries'
// scenarios to find any that are not in the list yet.
func newReport(ctx context.Context, suites []suite, run, log string) (*report, error) {
	asked, err := regexp.Compile(run)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	r := &report{names: scenarios(), results: map[string]result{}, skipped: map[string]string{}, others: map[string]int{}}
	for _, s := range suites {
		list, fault := exec.CommandContext(ctx, s.binary, "-test.list=^"+prefix).Output() //nolint:gosec // what was just built
		if fault != nil {
			return nil, fmt.Errorf("listing the tests of %s: %w", s.name, fault)
		}
		for name := range strings.FieldsSeq(string(list)) {
			if !slices.Contains(r.names, name) {
				r.names = append(r.names, name)
			}
		}
	}
	r.names = slices.DeleteFunc(r.names, func(name string) bool { return !asked.MatchString(name) })
	r.began = time.Now()
	if r.log, err = os.Create(log); err != nil { //nolint:gosec // in the project's own directory
		return nil, err
	}
	return r, nil
}

// Write receives output as it arrives.
func (r *report) Write(output []byte) (int, error) {
	text := bytes.ReplaceAll(output, []byte("\r"), nil)
	if _, err := r.log.Write(text); err != nil {
		return 0, err
	}
	r.line = append(r.line, text...)
	for {
		line, rest, whole := bytes.Cut(r.line, []byte("\n"))
		if !whole {
			return len(output), nil
		}
		if r.note(string(line)) {
			fmt.Println(string(line))
		}
		r.line = rest
	}
}

// note reports whether the line should be shown: a line that a test of no scenario starts,
// continues or passes is not.
func (r *report) note(line string) bool {
	if exit, ok := strings.CutPrefix(line, "evictd-cgroup2: exit "); ok {
		r.exit = exit
		return false
	}
	ended, ok := strings.CutPrefix(strings.TrimSpace(line), "--- ")
	if !ok {
		return !strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "=== RUN   "+prefix)
	}
	words := strings.Fields(ended)
	if len(words) != 3 {
		return true
	}
	return r.end(words[1], result{strings.TrimSuffix(words[0], ":"), strings.Trim(words[2], "()")})
}

// end records the end of a test or of a part of one, and reports whether to show it.
func (r *report) end(name string, got result) bool {
	test, part, isPart := strings.Cut(name, "/")
	scenario := strings.HasPrefix(test, prefix)
	switch {
	case scenario && isPart && got.verdict == "SKIP":
		r.skipped[test] = part
	case scenario && !isPart:
		r.results[test] = got
	case !isPart:
		r.others[got.verdict]++
	}
	return scenario || got.verdict != "PASS"
}

func (r *report) close() { _ = r.log.Close() }

// print prints the table. Each scenario, with all its parts, must have passed.
func (r *report) print() error {
	var missed []string
	fmt.Printf("\ncgroup v2, %d scenarios:\n", len(r.names))
	for _, name := range r.names {
		got := r.results[name]
		switch part := r.skipped[name]; {
		case got.verdict == "":
			got = result{"FAIL", "is missing or did not end"}
		case got.verdict == "SKIP":
			got = result{"FAIL", "was skipped, for the reason above"}
		case got.verdict == "PASS" && part != "":
			got = result{"FAIL", "its part " + part + " was skipped, for the reason above"}
		}
		if got.verdict != "PASS" {
			missed = append(missed, name)
		}
		fmt.Printf("  %-44s %s  %s\n", name, got.verdict, got.took)
	}
	fmt.Printf("other tests: %d passed, %d failed, %d skipped; %s in all; everything they printed: %s\n",
		r.others["PASS"], r.others["FAIL"], r.others["SKIP"], time.Since(r.began).Round(time.Second), r.log.Name())
	if len(missed) > 0 {
		return fmt.Errorf("%d of %d scenarios did not pass: %s", len(missed), len(r.names), strings.Join(missed, ", "))
	}
	return nil
}
