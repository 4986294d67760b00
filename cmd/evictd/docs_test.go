package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func readDoc(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// `make help` prints exactly the targets that docs/development.md lists.
func TestDevelopmentListsTheTargets(t *testing.T) {
	t.Parallel()
	page := readDoc(t, "docs/development.md")
	printed := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(readDoc(t, "Makefile"), -1) {
		printed[found[1]] = true
		if found[1] != "help" && !strings.Contains(page, "`make "+found[1]+"`") {
			t.Errorf("docs/development.md lacks make %s", found[1])
		}
	}
	if len(printed) < 10 {
		t.Fatalf("only %d targets found in the Makefile: %v", len(printed), printed)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `make .*$").FindAllString(page, -1) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, found := range regexp.MustCompile("`make ([a-z0-9-]+)`").FindAllStringSubmatch(cell, -1) {
			if !printed[found[1]] {
				t.Errorf("docs/development.md lists make %s, which make help does not print", found[1])
			}
		}
	}
}

// The README's sample is what `evictd rank` prints for these pods.
func TestReadmeShowsWhatRankPrints(t *testing.T) {
	t.Parallel()
	const tenthMi = 1<<20/10 + 1 // the sample's figures are rounded
	pods := []rank.Pod{
		{
			Namespace: "shop", Name: "first-f58888868-ddbnx", UID: "1", Owner: "ReplicaSet/first-f58888868",
			Usage: 543 * tenthMi, Request: 10 << 20, Sampled: true, GraceSeconds: 30, Created: time.Unix(1, 0),
		},
		{
			Namespace: "shop", Name: "second-65f665cb6d-b786q", UID: "2", Owner: "ReplicaSet/second-65f665cb6d",
			Usage: 53 << 20, Request: 100 << 20, Sampled: true, GraceSeconds: 30, Created: time.Unix(1, 0),
		},
		{
			Namespace: "evictd", Name: "evictd-jtzhr", UID: "3", Owner: "DaemonSet/evictd", Priority: 2000001000,
			Usage: 142 * tenthMi, Request: 64 << 20, Sampled: true, GraceSeconds: 30, Created: time.Unix(1, 0),
			Marks: rank.Marks{Self: true, DaemonSet: true},
		},
	}
	var printed bytes.Buffer
	ranking := rank.Order(rank.Memory, pods, rank.Rules{DaemonSets: true, BarePods: true})
	decide.WithinRequests("").WithholdNow(&ranking, pressure.MemoryAvailable, nil, pressure.Observation{})
	report := newRankReport(&sight{
		node: &snapshot.NodeSnapshot{Budgets: []snapshot.Budget{
			{UID: "1", Outcome: evict.BlockedByBudget, Budget: "first"},
		}},
		signal:  pressure.MemoryAvailable,
		ranking: ranking,
	})
	if err := writeRankTable(&printed, report, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(readDoc(t, "README.md"), printed.String()) {
		t.Errorf("README.md does not hold:\n%s", printed.String())
	}
}
