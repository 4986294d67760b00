package record_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/pkg/evict"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Succeed(t, err)
	return string(text)
}

// firsts returns the first group of each match of an expression, sorted and each once.
func firsts(expression, text string) (all []string) {
	for _, found := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Every key that is written has a row in docs/runbook.md, and every row is about a key that is written. Before a value the
// source has a key, but for the names of metrics and the message of a decision's line.
func TestEveryKeyIsInTheRunbook(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "../../docs/runbook.md"), "\n## Keys\n")
	section, _, _ = strings.Cut(section, "\n## ")
	files, err := filepath.Glob("*.go")
	must.Succeed(t, err)
	source := `("ts", 0, "level", 0, "msg", 0, "error", ` // by zap
	for _, name := range files {
		if name != "metrics.go" && name != "collector.go" && !strings.HasSuffix(name, "_test.go") {
			source += strings.ReplaceAll(read(t, name), `"decision", line`, "")
		}
	}
	if diff := cmp.Diff(firsts("(?m)^\\| `([a-z_]+)` \\|", section), firsts(`[(,\t] ?"([a-z_]+)",\s`, source)); diff != "" {
		t.Errorf("keys (-docs/runbook.md +written):\n%s", diff)
	}
}

// Each Event is in one of the golden files.
func TestEveryReasonIsShown(t *testing.T) {
	t.Parallel()
	shown := read(t, "testdata/events.golden") + read(t, "testdata/stories.golden")
	for _, reason := range record.Reasons() {
		if !regexp.MustCompile("(?m)^(Normal|Warning) " + reason + " on ").MatchString(shown) {
			t.Errorf("no story and no outcome or hold gives reason %s", reason)
		}
	}
}

// TestTheRunbookIsComplete keeps docs/runbook.md as the code is: a heading for
// every outcome and hold, a row for every Event's reason, and no
// metric that does not exist.
func TestTheRunbookIsComplete(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/runbook.md")
	var wanted []string
	for _, outcome := range evict.Outcomes() {
		wanted = append(wanted, "\n### "+string(outcome)+"\n")
	}
	for _, hold := range decide.Holds() {
		wanted = append(wanted, "\n### "+string(hold)+"\n")
	}
	for _, reason := range record.Reasons() {
		wanted = append(wanted, "\n| `"+reason+"` |")
	}
	for _, want := range wanted {
		if strings.Count(page, want) != 1 {
			t.Errorf("docs/runbook.md has %q %d times, want once", strings.TrimSpace(want), strings.Count(page, want))
		}
	}
	metrics := read(t, "../../docs/metrics.md")
	for _, name := range firsts(`(evictd_[a-z_]+)`, page) {
		if family := regexp.MustCompile("_(bucket|count|sum)$").ReplaceAllString(name, ""); !strings.Contains(metrics, "`"+family+"`") {
			t.Errorf("docs/runbook.md names %s, which docs/metrics.md does not", name)
		}
	}
}
