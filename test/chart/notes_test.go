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
			[]string{"is in DRY RUN", "No registry has the image registry.example/evictd/evictd:", "would do", "helm upgrade evictd CHART -n node-agents --reset-then-reuse-values --set config.dryRun=false", "helm test evictd -n node-agents", "kubectl -n node-agents get daemonset evictd\n", "kubectl -n node-agents exec"},
			[]string{"EVICTS PODS", "WARNING"},
		},
		{"image of a registry", "image: {repository: registry.corp.test/example/evictd}", []string{"is in DRY RUN"}, []string{"No registry"}},
		{
			"acts", "config: {dryRun: false}",
			[]string{"EVICTS PODS", "kubectl -n node-agents create configmap evictd-stop", "--set config.dryRun=true"},
			[]string{"DRY RUN", "would do", "extraArgs"},
		},
		{
			"acts, but for the flag", "{config: {dryRun: false}, extraArgs: [--dry-run]}",
			[]string{"is in DRY RUN", "extraArgs has --dry-run, which overrides", "and take --dry-run out of extraArgs"},
			[]string{"EVICTS PODS", "evictd-stop"},
		},
		{"the flag with a value", "{config: {dryRun: false}, extraArgs: [--dry-run=T]}", []string{"is in DRY RUN"}, []string{"EVICTS PODS"}},
		{
			"the last flag counts", "{config: {dryRun: false}, extraArgs: [--dry-run, --dry-run=false]}",
			[]string{"EVICTS PODS"},
			[]string{"DRY RUN", "extraArgs"},
		},
		{"the flag does not let it act", "{config: {dryRun: true}, extraArgs: [--dry-run=false]}", []string{"is in DRY RUN"}, []string{"EVICTS PODS"}},
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
