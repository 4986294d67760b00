package record_test

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/pkg/rank"
)

// TestAnAnnotationThatCountsForNothingIsTold: an Event reports to the owner of a pod whose
// annotation is ignored that it was evicted, and the log reports it for the runners-up.
func TestAnAnnotationThatCountsForNothingIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := decision()
	ranked := pods()
	for i := range ranked {
		ranked[i].Evict = rank.Never
	}
	d.Ranking = rank.Order(rank.Memory, ranked, rank.Rules{})
	d.Attempts = d.Attempts[1:]
	d.Attempts[0].Entry = d.Ranking.Candidates[0]
	r.Decision(d)
	const text = "ts annotation evictd.dev/evict counts for nothing here: protect.annotationNamespaces does not name its namespace"
	if got := r.events.all[0].message; !strings.Contains(got, "candidates. I"+text+". It has") {
		t.Errorf("the Event does not say so: %s", got)
	}
	if got := served(t, r)[0]["runners_up"].([]any)[0].(map[string]any)["why"].(string); !strings.HasSuffix(got, "; i"+text) { //nolint:forcetypeassert // a panic fails the test
		t.Errorf("why of a runner-up: %s", got)
	}
}
