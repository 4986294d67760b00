package execute

import (
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/usage"
)

// What the victim holds in detail is read once, after its eviction was accepted: never before the
// request, for a pod that stays, or in a dry run.
func TestHeldIsReadOfTheVictimAlone(t *testing.T) {
	t.Parallel()
	for _, dryRun := range []bool{false, true} {
		e := newFake(func(f *fake) { f.answers = map[string]evict.Result{"first": {Outcome: evict.Denied}} })
		options := e.options()
		options.Held = func(uid string) (usage.Detail, error) { e.call("held " + uid); return usage.Detail{"slab": 7}, nil }
		p := decide.Plan{Decision: decide.Decision{Time: time.Now(), DryRun: dryRun}, Candidates: []decide.Candidate{pod("first"), pod("next"), pod("last")}}
		executor := New(options)
		executor.Start(t.Context(), p)
		report := <-executor.Reports()
		calls := strings.Join(e.all(), ", ")
		read := strings.HasSuffix(calls, "evict next, held next") && report.Held["slab"] == 7
		if read == dryRun || strings.Count(calls, "held") > 1 || dryRun && strings.Contains(calls, "held") {
			t.Errorf("dry run %t: %s; reported %v", dryRun, calls, report.Held)
		}
	}
}
