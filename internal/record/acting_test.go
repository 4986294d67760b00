package record_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/pkg/evict"
)

// Each change is said once: in the log, where evictd is stopped by an Event on the node, and in the
// metrics.
func TestActingIsSaidOnceForEachChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	awaited := acting.State{Reason: acting.StopUnknown, Why: "not known yet"}
	unknown := acting.State{Reason: acting.StopUnknown, Why: "no right", Do: "apply the Role"}
	stopped := acting.State{Reason: acting.Stopped, Why: "a ConfigMap stops it", Do: "delete it"}
	configured := acting.State{Reason: acting.Configured, Why: "dryRun is true"}
	for _, s := range []acting.State{awaited, unknown, unknown, stopped, stopped, {}, configured, {}} {
		r.Acting(s)
		want := map[bool]float64{false: 1, true: 0}[s.Acts()]
		if got := value(t, r, "evictd_dry_run"); got != want {
			t.Errorf("%+v: evictd_dry_run %v, want %v", s, got, want)
		}
		for _, reason := range acting.Reasons() {
			if got := value(t, r, "evictd_dry_run_reason", "reason", string(reason)); (got == 1) != (reason == s.Reason) {
				t.Errorf("%+v: evictd_dry_run_reason{reason=%q} %v", s, reason, got)
			}
		}
	}
	var lines, events []string
	for _, line := range r.lines(t) {
		lines = append(lines, fmt.Sprint(line["level"], " ", line["msg"], " ", line["reason"], " ", line["detail"]))
	}
	if want := []string{
		"warn evictd does not act StopUnknown no right; apply the Role",
		"warn evictd does not act Stopped a ConfigMap stops it; delete it",
		"info evictd acts <nil> <nil>",
		"info evictd does not act Configured dryRun is true",
		"info evictd acts <nil> <nil>",
	}; !slices.Equal(lines, want) {
		t.Errorf("logged\n%s", strings.Join(lines, "\n"))
	}
	for _, e := range r.events.all {
		events = append(events, e.reason+" "+e.message)
	}
	if len(events) != 3 || !strings.HasPrefix(events[0], "EvictionsStopped") || !strings.Contains(events[1], "a ConfigMap stops it; delete it") ||
		!strings.HasPrefix(events[2], "EvictionsResumed") {
		t.Errorf("Events\n%s", strings.Join(events, "\n"))
	}
}

// A dry run's line and Event say why evictd does not act.
func TestDecisionSaysWhyEvictdDoesNotAct(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := decision()
	d.DryRun, d.DryRunWhy = true, "a ConfigMap stops it"
	d.Attempts = d.Attempts[:1]
	d.Attempts[0].Result.Outcome = evict.WouldEvict
	r.Decision(d)
	if line := r.lines(t)[0]; line["dry_run_why"] != d.DryRunWhy {
		t.Errorf("the line has %v", line["dry_run_why"])
	}
	if text := r.events.all[0].message; !strings.Contains(text, " evictd does not act: a ConfigMap stops it. ") {
		t.Errorf("the Event says %s", text)
	}
}
