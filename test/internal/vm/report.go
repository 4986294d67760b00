package vm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// exitWord begins the line by which the virtual machine's first process reports the exit code
// of the tests.
const exitWord = "evictd-vm: exit "

// Report forwards the output of tests that run with -test.v, keeps all of it in a file, and judges the scenarios, which
// are the tests with a prefix: each must pass, with all its parts.
type Report struct {
	prefix   string
	expected []string
	log      *os.File
	text     bytes.Buffer
}

// NewReport expects these scenarios; others of the prefix are added when they start. The prefix "" makes every test a
// scenario. The log is a file's name.
func NewReport(log, prefix string, expected []string) (*Report, error) {
	file, err := os.Create(log) //nolint:gosec // in the project's own directory
	if err != nil {
		return nil, fmt.Errorf("keeping the output of the tests: %w", err)
	}
	return &Report{prefix: prefix, expected: expected, log: file}, nil
}

// Write receives output as it arrives.
func (r *Report) Write(output []byte) (int, error) {
	text := bytes.ReplaceAll(output, []byte("\r"), nil) // of a serial console
	_, unkept := r.log.Write(text)
	_, unshown := os.Stdout.Write(text)
	r.text.Write(text)
	return len(output), errors.Join(unkept, unshown)
}

// Close closes the log.
func (r *Report) Close() error { return r.log.Close() }

// exit is the exit code that the virtual machine reported; "" where it reported none.
func (r *Report) exit() string {
	_, after, _ := strings.Cut(r.text.String(), exitWord)
	code, _, _ := strings.Cut(after, "\n")
	return code
}

// Judge prints how many scenarios have passed, and returns an error unless there are some and each has, with all its parts.
func (r *Report) Judge() error {
	passed, faults := r.results()
	fmt.Printf("\n%d scenarios and parts passed; everything they printed: %s\n", passed, r.log.Name())
	if len(faults) > 0 {
		return fmt.Errorf("%d scenarios or parts did not pass:\n%s", len(faults), strings.Join(faults, "\n"))
	}
	if passed == 0 {
		return errors.New("no test ran")
	}
	return nil
}

// results returns how many scenarios and parts have passed, and what is wrong with the others.
func (r *Report) results() (passed int, faults []string) {
	waiting := slices.Clone(r.expected)
	for line := range strings.Lines(r.text.String()) {
		words := strings.Fields(line)
		if len(words) < 3 || !strings.HasPrefix(words[2], r.prefix) {
			continue
		}
		switch words[0] + " " + words[1] {
		case "=== RUN":
			waiting = append(waiting, words[2])
			continue
		case "--- PASS:":
			passed++
		case "--- FAIL:", "--- SKIP:":
			faults = append(faults, strings.TrimSpace(line))
		default:
			continue
		}
		waiting = slices.DeleteFunc(waiting, func(name string) bool { return name == words[2] })
	}
	for _, name := range waiting {
		faults = append(faults, name+" is missing or did not end")
	}
	return passed, faults
}
