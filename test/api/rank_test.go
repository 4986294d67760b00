package api

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// The running evictd says which pod a real PodDisruptionBudget keeps, and what it has saved gives the same
// ranking without the cluster.
func TestRankShowsWhatIsRefusedAndIsRankedAgainFromASnapshot(t *testing.T) {
	t.Parallel()
	a := evictdtest.NewAgent(t)
	a.Budget("guard", "large")
	a.Start()
	a.Press()
	asking := "--debug-bind-address=" + a.Evictd.Address
	a.Until("evictd says why it does not evict large", func(ctx context.Context) bool {
		why, _ := evictd(ctx, t, "rank", asking, "--why", a.Namespace+"/large")
		return strings.Contains(why, "no candidate: BackingOff") && strings.Contains(why, "PodDisruptionBudget guard was BlockedByBudget, until ")
	})
	file := filepath.Join(t.TempDir(), "node.json")
	text, complaints := evictd(t.Context(), t, "rank", asking, "-o", "json", "--save", file)
	var ranking struct {
		Protected []struct {
			Name       string `json:"name"`
			Protection string `json:"protection"`
		} `json:"protected"`
	}
	a.Must(json.Unmarshal([]byte(text), &ranking))
	if len(ranking.Protected) == 0 || complaints != "" {
		t.Errorf("stderr %q, ranking %s", complaints, text)
	}
	if again, _ := evictd(t.Context(), t, "rank", "--snapshot", file, "-o", "json"); again != text {
		t.Errorf("from the snapshot:\n%s\nwant, as it was seen:\n%s", again, text)
	}
	status, _ := evictd(t.Context(), t, "status", asking)
	if unwrapped := strings.Join(strings.Fields(status), " "); !strings.Contains(unwrapped, "memory.available") || !strings.Contains(unwrapped, "PodDisruptionBudget guard") {
		t.Errorf("status:\n%s", status)
	}
}
