package record_test

import (
	"testing"

	"github.com/evictd/evictd/internal/confined"
)

// What is not known has no series: 0 says that evictd is not confined.
func TestConfinedIsShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const name = "evictd_confined"
	expect(t, r, "", name)
	r.Confined(confined.Result{Detail: "no answer"})
	expect(t, r, "", name)
	r.Confined(confined.Result{State: confined.Unconfined, Detail: "own-node lets everything through"})
	if got := value(t, r, name); got != 0 {
		t.Errorf("%s = %v, want 0", name, got)
	}
	r.Confined(confined.Result{State: confined.Confined})
	if got := value(t, r, name); got != 1 {
		t.Errorf("%s = %v, want 1", name, got)
	}
	lines := r.lines(t)
	if len(lines) != 3 {
		t.Fatalf("lines %v", lines)
	}
	for i, want := range []struct{ level, message, detail string }{
		{"info", "whether evictd is confined to its node is not known", "no answer"},
		{
			"warn", "evictd is not confined to its node", "own-node lets everything through; apply the ValidatingAdmissionPolicies of " +
				"deploy/daemonset.yaml and their bindings; their matchConditions must name this account (docs/security.md, Own node only)",
		},
		{"info", "evictd is confined to its node", ""},
	} {
		detail, _ := lines[i]["detail"].(string)
		if lines[i]["level"] != want.level || lines[i]["msg"] != want.message || detail != want.detail {
			t.Errorf("line %v, want %+v", lines[i], want)
		}
	}
}
