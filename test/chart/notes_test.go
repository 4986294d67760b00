package chart

import (
	"strings"
	"testing"
)

// What Helm prints at the end says whether evictd acts, and which command changes that.
func TestNotes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, values string
		has, lacks   []string
	}{
		{
			"shipped", "",
			[]string{"is in DRY RUN", "No registry has the image registry.example/evictd/evictd:", "would do", "helm upgrade evictd CHART -n node-agents --reset-then-reuse-values --set config.dryRun=false", "helm test evictd -n node-agents", "kubectl -n node-agents exec"},
			[]string{"EVICTS PODS", "WARNING"},
		},
		{"image of a registry", "image: {repository: registry.corp.test/example/evictd}", []string{"is in DRY RUN"}, []string{"No registry"}},
		{"acts", "config: {dryRun: false}", []string{"EVICTS PODS", "--set config.dryRun=true"}, []string{"DRY RUN", "would do"}},
		{"acts, but for the flag", "{config: {dryRun: false}, extraArgs: [--dry-run]}", []string{"is in DRY RUN"}, []string{"EVICTS PODS"}},
		{"not confined", "ownNodePolicies: {evictions: false}", []string{"WARNING: evictd's account is not confined"}, nil},
	} {
		notes := Render(t, "node-agents", test.values).Notes
		for _, text := range test.has {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: %q is missing in\n%s", test.name, text, notes)
			}
		}
		for _, text := range test.lacks {
			if strings.Contains(notes, text) {
				t.Errorf("%s: %q is in\n%s", test.name, text, notes)
			}
		}
	}
}
