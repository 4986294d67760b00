// Package golden compares what a test makes with a file in its testdata.
package golden

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Compare compares with the file at the path, or writes it where update is set. Command is
// how to have that done, for the test's fault.
func Compare(tb testing.TB, path, got string, update bool, command string) {
	tb.Helper()
	if update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // a test's own
	if err != nil {
		tb.Fatalf("%v; %s writes it", err, command)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		tb.Errorf("%s is out of date (-file +now), %s writes it:\n%s", path, command, diff)
	}
}

// Sections compares the answers in a file of sections with those that answer gives. A section has a line with "## " and its
// name, the input, and the answer, each line behind ">> "; an empty line ends it. Where update is set the answers are written.
func Sections(tb testing.TB, path string, update bool, command string, answer func(name, input string) []string) {
	tb.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // a test's own
	if err != nil {
		tb.Fatal(err)
	}
	sections := strings.Split(strings.TrimPrefix(string(text), "## "), "\n\n## ")
	if len(sections) < 10 {
		tb.Errorf("%s has only %d sections", path, len(sections))
	}
	var out strings.Builder
	for _, section := range sections {
		name, input, _ := strings.Cut(section+"\n", "\n")
		input, _, _ = strings.Cut("\n"+input, "\n>> ")
		if input = strings.Trim(input, "\n"); input != "" {
			input += "\n"
		}
		fmt.Fprintf(&out, "## %s\n%s>> %s\n\n", name, input, strings.Join(answer(name, input), "\n>> "))
	}
	Compare(tb, path, out.String(), update, command)
}
