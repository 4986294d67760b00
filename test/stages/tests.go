package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tests are the results of a target's tests, with parts (t.Run) counted by themselves, as gotestsum does.
type tests struct {
	passed, failed, skipped int
	failures                []string // of whole packages too
	targets                 []string // that failed, with those that a target ran
	slow                    []slowTest
}

// slowTest is a test as a whole, with its parts.
type slowTest struct {
	name    string
	seconds float64
}

// event is one line of `go test -json`.
type event struct {
	Action  string  `json:"Action"`
	Package string  `json:"Package"`
	Test    string  `json:"Test"`
	Elapsed float64 `json:"Elapsed"` // seconds
}

// readTests reads all events below a directory. A line that is cut off, as of a run that was killed, is
// not counted.
func readTests(dir string) (tests, error) {
	var t tests
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error { //nolint:gosec // what the targets have just written
		if err != nil || entry.IsDir() {
			return err
		}
		if entry.Name() == failedFile {
			t.targets = append(t.targets, "make "+filepath.Base(filepath.Dir(path)))
			return nil
		}
		return t.readFile(path)
	})
	if err != nil {
		return tests{}, fmt.Errorf("reading results: %w", err)
	}
	return t, nil
}

func (t *tests) readFile(path string) error {
	file, err := os.Open(path) //nolint:gosec // what the run has just written
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			t.count(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tests) count(e event) {
	name := shortPackage(e.Package)
	if e.Test == "" {
		if e.Action == "fail" && !t.hasFailureIn(name) { // it did not compile, or ended outside of a test
			t.failed++
			t.failures = append(t.failures, name)
		}
		return
	}
	name += "." + e.Test
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		t.skipped++
	case "fail":
		t.failed++
		t.failures = append(t.failures, name)
	default:
		return
	}
	if !strings.Contains(e.Test, "/") {
		t.slow = append(t.slow, slowTest{name, e.Elapsed})
	}
}

func (t *tests) hasFailureIn(name string) bool {
	return slices.ContainsFunc(t.failures, func(f string) bool { return strings.HasPrefix(f, name+".") })
}

// shortPackage is the package without what all have.
func shortPackage(path string) string {
	short := strings.TrimPrefix(path, "github.com/evictd/evictd")
	return strings.TrimPrefix(short, "/")
}
