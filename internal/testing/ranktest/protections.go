// Package ranktest tells tests what package rank declares.
package ranktest

import (
	"os"
	"regexp"
	"testing"
)

// Protections returns every reason why a pod may not be evicted that rank's protect.go, at that path, declares,
// in the order in which they are checked.
func Protections(tb testing.TB, path string) (reasons []string) {
	tb.Helper()
	source, err := os.ReadFile(path) //nolint:gosec // of this repository
	if err != nil {
		tb.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^\tProtected\w+ Protection = "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		reasons = append(reasons, found[1])
	}
	if len(reasons) < 10 {
		tb.Fatalf("%s declares %q, want more", path, reasons)
	}
	return reasons
}
