package config

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRules(t *testing.T) {
	t.Parallel()
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

// TestInvalid: a selector that is not understood evicts no pod, and nor does a threshold.
func TestInvalid(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Protect.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}
	c.EvictionHard["memory.available"] = "much"
	if !c.Rules().Selected(nil) || c.Thresholds() != nil {
		t.Errorf("thresholds %v, or the selector protects no pod", c.Thresholds())
	}
}
