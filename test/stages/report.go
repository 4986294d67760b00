package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	slowest = 10
	// resultsPage has a line of each run on purpose.
	resultsPage = "docs/test-results.md"
)

// table is one line for each stage, every failure, and the slowest tests.
func table(all []stage) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-14s %7s %7s %8s %8s  %s\n", "stage", "tests", "failed", "skipped", "seconds", "result")
	var failures []string
	var slow []slowTest
	for _, s := range all {
		t := s.tests
		fmt.Fprintf(&text, "%-14s %7d %7d %8d %8.0f  %s\n", s.name, t.passed+t.failed+t.skipped, t.failed, t.skipped, s.seconds, word(s.failed))
		for _, failure := range append(t.targets, t.failures...) {
			failures = append(failures, s.name+": "+failure)
		}
		slow = append(slow, t.slow...)
	}
	if len(failures) > 0 {
		fmt.Fprintf(&text, "\nfailed:\n  %s\n", strings.Join(failures, "\n  "))
	}
	slices.SortStableFunc(slow, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
	if len(slow) > 0 {
		fmt.Fprintf(&text, "\nslowest:\n")
	}
	for _, t := range slow[:min(slowest, len(slow))] {
		fmt.Fprintf(&text, "%8.1f s  %s\n", t.seconds, t.name)
	}
	return text.String()
}

func word(failed bool) string {
	if failed {
		return "FAILED"
	}
	return "passed"
}

// appendLine adds the sums of a run to the page of results.
func appendLine(ctx context.Context, repository, name string, all []stage) error {
	commit, err := commitOf(ctx, repository)
	if err != nil {
		return err
	}
	path := filepath.Join(repository, resultsPage)
	page, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // a page of the documentation
	if err != nil {
		return fmt.Errorf("recording the run: %w", err)
	}
	if _, err := fmt.Fprintln(page, line(name, commit, kernel(), time.Now(), all)); err != nil {
		_ = page.Close()
		return fmt.Errorf("recording the run in %s: %w", path, err)
	}
	return page.Close()
}

// line is a row of the page. A stage that failed without a failed test, such as a linter, counts as one.
func line(name, commit, kernel string, now time.Time, all []stage) string {
	var sum tests
	seconds := 0.0
	for _, s := range all {
		sum.passed += s.tests.passed
		sum.skipped += s.tests.skipped
		sum.failed += s.tests.failed
		sum.failures = append(sum.failures, s.tests.failures...)
		if s.failed && s.tests.failed == 0 {
			sum.failed++
			sum.failures = append(sum.failures, "make "+s.name)
		}
		seconds += s.seconds
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %d | %d | %.0f | %s | %s |", name, commit, now.UTC().Format("2006-01-02 15:04"),
		sum.passed, sum.failed, sum.skipped, seconds, kernel, strings.Join(sum.failures, ", "))
}

// commitOf names the commit, with + where the checkout has changes to anything but the page of results.
func commitOf(ctx context.Context, repository string) (string, error) {
	commit, err := git(ctx, repository, "rev-parse", "--short=9", "HEAD")
	if err != nil {
		return "", err
	}
	changes, err := git(ctx, repository, "status", "--porcelain", "--", ".", ":!"+resultsPage)
	if err != nil {
		return "", err
	}
	if changes != "" {
		commit += "+"
	}
	return commit, nil
}

func git(ctx context.Context, repository string, arguments ...string) (string, error) {
	command := exec.CommandContext(context.WithoutCancel(ctx), "git", arguments...) //nolint:gosec // constants
	command.Dir = repository
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("asking git for the commit: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}

func kernel() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}
