package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/rank"
)

func TestRules(t *testing.T) {
	t.Parallel()
	byDefault := Default().Rules()
	if byDefault.Selected != nil {
		t.Error("an empty selector selects pods")
	}
	if diff := cmp.Diff(rank.Rules{
		DaemonSets: true, BarePods: true, PinnedPods: true, PriorityAtLeast: rank.SystemCriticalPriority, Namespaces: []string{"kube-system"},
		Annotated: true,
	}, byDefault); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	rules := mustParse(t, head+`
protect:
  annotations: ignore
  minAge: 5m
  podSelector:
    matchLabels: {app: db}
    matchExpressions: [{key: tier, operator: NotIn, values: [test]}]
`).Rules()
	if rules.Annotated || rules.MinAge != 5*time.Minute {
		t.Errorf("annotations count: %t, the least age is %v", rules.Annotated, rules.MinAge)
	}
	for _, tc := range []struct {
		labels map[string]string
		want   bool
	}{
		{nil, false},
		{map[string]string{"app": "db"}, true},
		{map[string]string{"app": "db", "tier": "test"}, false},
		{map[string]string{"app": "web"}, false},
	} {
		if got := rules.Selected(tc.labels); got != tc.want {
			t.Errorf("%v: got %t, want %t", tc.labels, got, tc.want)
		}
	}
}

// TestRulesOfInvalidSelector: a selector that is not understood evicts no pod.
func TestRulesOfInvalidSelector(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Protect.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}
	if rules := c.Rules(); !rules.Selected(nil) {
		t.Error("a selector that is not valid protects no pod")
	}
}
