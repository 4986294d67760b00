package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/evictd/evictd/internal/testing/golden"
	mustbe "github.com/evictd/evictd/internal/testing/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// compare compares with a file, or writes it with -update.
func compare(t *testing.T, path, got string) {
	t.Helper()
	golden.Compare(t, path, got, *update, "go test ./cmd/evictd -update")
}

const example = "testdata/rank/worker-1.json"

// ranked calls `evictd rank --snapshot` and fails the test unless it succeeds and prints
// nothing but the ranking.
func ranked(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := call(t, append([]string{"rank"}, args...)...)
	if code != exitFine || stderr != "" {
		t.Fatalf("evictd rank %q: code %d, stderr %q", args, code, stderr)
	}
	return stdout
}

// The worked example, in every format, without a cluster, a node or a running evictd.
func TestSavedDocumentIsRanked(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"table.txt":     {"-o", "table"},
		"wide.txt":      {"-o", "wide"},
		"report.json":   {"-o", "json"},
		"report.yaml":   {"-o", "yaml"},
		"disk.txt":      {"--signal", "nodefs.available"},
		"pids.txt":      {"--signal", "pid.available"},
		"why.txt":       {"--why", "shop/web-6b7c9-9s2hw"},
		"why-root.txt":  {"--why", "tools/exporter-5f6b7-pv4tr"},
		"why-pids.txt":  {"--why", "shop/cart-5d9f8-xm2vn", "--signal", "pid.available"},
		"protected.txt": {"--why", "tools/debug"},
		"unsampled.txt": {"--why", "batch/import-kk29d"},
		"first-why.txt": {"--why", "batch/report-9zqfl"},
		"last-why.txt":  {"--why", "shop/payments-77c4d-lq8ds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed := ranked(t, append([]string{"--snapshot", example}, args...)...)
			compare(t, "testdata/rank/"+name, printed)
			for line := range strings.Lines(printed) {
				if strings.HasPrefix(printed, "worker-1 at ") && name != "wide.txt" && utf8.RuneCountInString(line) > 121 {
					t.Errorf("more than 120 columns: %s", line)
				}
			}
		})
	}
}

// The output in docs/ranking.md for the worked example is what evictd prints.
func TestDocsShowTheWorkedExample(t *testing.T) {
	t.Parallel()
	page := readDoc(t, "docs/ranking.md")
	for _, args := range [][]string{{"--snapshot", example}, {"--snapshot", example, "--why", "shop/web-6b7c9-9s2hw"}} {
		printed := ranked(t, args...)
		called := "$ evictd rank " + strings.Replace(strings.Join(args, " "), example, filepath.Base(example), 1)
		if !strings.Contains(page, called+"\n"+printed+"```") {
			t.Errorf("docs/ranking.md does not hold what %q prints:\n%s", args, printed)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// The content of a document cannot move the reader's cursor.
func TestNothingInADocumentReachesTheTerminalRaw(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "node.json", strings.ReplaceAll(readFile(t, example), `"exporter-5f6b7-pv4tr"`, `"x\u001b[31m"`))
	for _, args := range [][]string{{"-o", "wide"}, {"--why", "tools/x\x1b[31m"}} {
		printed := ranked(t, append([]string{"--snapshot", path}, args...)...)
		if strings.ContainsAny(printed, "\x1b\x07") || !strings.Contains(printed, `\x1b[`) {
			t.Errorf("%q prints\n%q", args, printed)
		}
	}
}

// must ends the test where something failed.
var must = mustbe.Succeed
