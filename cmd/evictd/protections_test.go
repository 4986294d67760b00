package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/testing/ranktest"
)

// docs/ranking.md has every reason, in the order in which they are checked, and says for
// each what causes it.
func TestRankingListsTheProtections(t *testing.T) {
	t.Parallel()
	_, page, _ := strings.Cut(readDoc(t, "docs/ranking.md"), "\n## Protections\n")
	table, rest, _ := strings.Cut(page, "\n\n`evictd rank`")
	_, causes, _ := strings.Cut(rest, "\n### Who can give a pod a protection\n")
	causes, _, _ = strings.Cut(causes, "\n## ")
	want, listed := ranktest.Protections(t, "../../pkg/rank/protect.go"), []string(nil)
	for _, reason := range want {
		if strings.Count(causes, "`"+reason+"`") != 1 {
			t.Errorf("what can cause %q is not said once", reason)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("the table of protections (-code +docs):\n%s", diff)
	}
}
