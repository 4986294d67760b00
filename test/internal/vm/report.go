package vm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// exitWord begins the line by which the virtual machine's first process reports the exit code
// of the tests.
const exitWord = "evictd-vm: exit "

// Report forwards the output of tests that run with -test.v, keeps all of it in a file and
// records the results of the scenarios, which are the tests with a prefix. Each must pass,
// with all its parts.
type Report struct {
	title  string
	prefix string
	log    *os.File
	began  time.Time
	line   []byte   // the last one, without its end
	names  []string // of the scenarios
	// results has how the scenarios and their parts ended.
	results map[string]result
	skipped map[string]string // the skipped part, by scenario name
	others  map[string]int    // number of other tests, by verdict
	exit    string            // the virtual machine's exit message; "" when there was none
}

// result is how a test ended; the zero value is that of a test that did not run.
type result struct{ verdict, took string }

// NewReport expects these scenarios, which may be parts (Test/part); others of the prefix are
// added when they start. The prefix "" makes every test a scenario. The log is a file's name.
func NewReport(log, title, prefix string, expected []string) (*Report, error) {
	file, err := os.Create(log) //nolint:gosec // in the project's own directory
	if err != nil {
		return nil, fmt.Errorf("keeping the output of the tests: %w", err)
	}
	return &Report{
		title: title, prefix: prefix, log: file, began: time.Now(), names: slices.Clone(expected),
		results: map[string]result{}, skipped: map[string]string{}, others: map[string]int{},
	}, nil
}

// Write receives output as it arrives.
func (r *Report) Write(output []byte) (int, error) {
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
func (r *Report) note(line string) bool {
	if exit, ok := strings.CutPrefix(line, exitWord); ok {
		r.exit = exit
		return false
	}
	if name, ok := strings.CutPrefix(line, "=== RUN   "); ok {
		return r.start(name)
	}
	ended, ok := strings.CutPrefix(strings.TrimSpace(line), "--- ")
	if !ok {
		return !strings.HasPrefix(line, "=== ")
	}
	words := strings.Fields(ended)
	if len(words) != 3 {
		return true
	}
	return r.end(words[1], result{strings.TrimSuffix(words[0], ":"), strings.Trim(words[2], "()")})
}

// start adds a scenario that was not expected, and reports whether to show it.
func (r *Report) start(name string) bool {
	if !strings.HasPrefix(name, r.prefix) {
		return false
	}
	known := func(expected string) bool { return expected == name || strings.HasPrefix(expected, name+"/") }
	if !strings.Contains(name, "/") && !slices.ContainsFunc(r.names, known) {
		r.names = append(r.names, name)
	}
	return true
}

// end records the end of a test or of a part of one, and reports whether to show it.
func (r *Report) end(name string, got result) bool {
	test, part, isPart := strings.Cut(name, "/")
	scenario := strings.HasPrefix(test, r.prefix)
	switch {
	case scenario:
		r.results[name] = got
		if isPart && got.verdict == "SKIP" {
			r.skipped[test] = part
		}
	case !isPart:
		r.others[got.verdict]++
	}
	return scenario || got.verdict != "PASS"
}

// Close closes the log.
func (r *Report) Close() error { return r.log.Close() }

// Print prints the table, and returns an error unless there are scenarios and each has
// passed, with all its parts.
func (r *Report) Print() error {
	var missed []string
	fmt.Printf("\n%s, %d scenarios:\n", r.title, len(r.names))
	for _, name := range r.names {
		got := r.judge(name)
		if got.verdict != "PASS" {
			missed = append(missed, name)
		}
		fmt.Printf("  %-60s %s  %s\n", name, got.verdict, got.took)
	}
	if r.prefix != "" {
		fmt.Printf("other tests: %d passed, %d failed, %d skipped\n", r.others["PASS"], r.others["FAIL"], r.others["SKIP"])
	}
	fmt.Printf("%s in all; everything they printed: %s\n", time.Since(r.began).Round(time.Second), r.log.Name())
	if len(missed) > 0 {
		return fmt.Errorf("%d of %d scenarios did not pass: %s", len(missed), len(r.names), strings.Join(missed, ", "))
	}
	if len(r.names) == 0 {
		return errors.New("no test ran")
	}
	return nil
}

// judge returns the result of a scenario, with why it is a failure where the test's own line
// does not say it.
func (r *Report) judge(name string) result {
	got := r.results[name]
	test, _, _ := strings.Cut(name, "/")
	switch part := r.skipped[test]; {
	case got.verdict == "":
		return result{"FAIL", "is missing or did not end"}
	case got.verdict == "SKIP":
		return result{"FAIL", "was skipped, for the reason above"}
	case got.verdict == "PASS" && part != "":
		return result{"FAIL", "its part " + part + " was skipped, for the reason above"}
	}
	return got
}
