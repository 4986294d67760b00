// Package golden compares what a test makes with a file in its testdata.
package golden

import (
	"os"
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
