package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
)

// The agent receives the file's limits and protections.
func TestPolicyCarriesLimitsAndProtections(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(head + `
limits: {evictionsPerMinute: 7, perOwnerPerHour: 8, softJitter: 3s}
protect: {pinnedPods: false, withinRequests: always, minAge: 5m}
disruptionBudgets: bestEffort
evictionOverdueGracePeriod: 45
taintNode: soft
`))
	must(t, err)
	policy := (&daemon{flags: &runFlags{}}).policyOf(c)
	if policy.Limits != (config.Limits{EvictionsPerMinute: 7, PerOwnerPerHour: 8, SoftJitter: metav1.Duration{Duration: 3 * time.Second}}) {
		t.Errorf("limits %+v", policy.Limits)
	}
	if policy.OverdueGrace != 45 {
		t.Errorf("an overdue victim gets %d s", policy.OverdueGrace)
	}
	if !policy.TaintNode || !policy.TaintSoft {
		t.Errorf("the node is tainted: %t, softly: %t", policy.TaintNode, policy.TaintSoft)
	}
	if !policy.BestEffort {
		t.Error("budgets are respected")
	}
	if policy.WithinRequests != decide.WithinRequestsAlways {
		t.Errorf("pods within their requests: %q", policy.WithinRequests)
	}
	if r := &policy.Rules; r.PinnedPods || !r.DaemonSets || !r.Annotated || r.MinAge != 5*time.Minute {
		t.Errorf("rules %+v", r)
	}
}
