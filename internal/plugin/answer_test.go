package plugin

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/acting"
)

// calm is what an agent without pressure serves.
const calm = `# TYPE evictd_build_info gauge
evictd_build_info{go_version="go1.26",version="v0.1.0"} 1
# TYPE evictd_dry_run gauge
evictd_dry_run 1
# TYPE evictd_evictions_total counter
evictd_evictions_total{dry_run="true",outcome="WouldEvict",signal="memory.available"} 0
evictd_evictions_total{dry_run="true",outcome="BlockedByBudget",signal="memory.available"} 3
# TYPE evictd_last_tick_timestamp_seconds gauge
evictd_last_tick_timestamp_seconds 1.8000000005e+09
# TYPE evictd_signal_available_bytes gauge
evictd_signal_available_bytes{signal="memory.available"} 8.589934592e+09
evictd_signal_available_bytes{signal="nodefs.available"} 8.589934592e+10
# TYPE evictd_signal_available_seconds gauge
evictd_signal_available_seconds{signal="memory.stall"} 2
# TYPE evictd_signal_available_tasks gauge
evictd_signal_available_tasks{signal="pid.available"} 32000
# TYPE evictd_signal_capacity_bytes gauge
evictd_signal_capacity_bytes{signal="memory.available"} 1.7179869184e+10
evictd_signal_capacity_bytes{signal="nodefs.available"} 1.073741824e+11
# TYPE evictd_signal_capacity_seconds gauge
evictd_signal_capacity_seconds{signal="memory.stall"} 2
# TYPE evictd_signal_capacity_tasks gauge
evictd_signal_capacity_tasks{signal="pid.available"} 32768
# TYPE evictd_signal_state gauge
evictd_signal_state{signal="memory.available",state="Known"} 1
evictd_signal_state{signal="memory.available",state="Unknown"} 0
evictd_signal_state{signal="imagefs.available",state="Absent"} 1
evictd_signal_state{signal="imagefs.available",state="Unknown"} 0
# TYPE evictd_threshold_line_bytes gauge
evictd_threshold_line_bytes{kind="Hard",signal="memory.available"} 5.36870912e+08
evictd_threshold_line_bytes{kind="Soft",signal="memory.available"} 1.073741824e+09
evictd_threshold_line_bytes{kind="Hard",signal="nodefs.available"} 1.073741824e+10
# TYPE evictd_threshold_line_seconds gauge
evictd_threshold_line_seconds{kind="Hard",signal="memory.stall"} 1.8
# TYPE evictd_forecast_seconds gauge
evictd_forecast_seconds{signal="memory.available"} +Inf
# TYPE evictd_under_pressure gauge
evictd_under_pressure{signal="memory.available"} 0
# TYPE evictd_pressure gauge
evictd_pressure{kind="Hard",signal="memory.available"} 0
evictd_pressure{kind="Soft",signal="memory.available"} 0
`

// said returns the answer of an agent with that page, changed line by line. Its clock is a second
// after the page's last tick, and half a second.
func said(t *testing.T, page string, changes ...string) *answer {
	t.Helper()
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(page, changes[i]) {
			t.Fatalf("the page has no %q", changes[i])
		}
		page = strings.Replace(page, changes[i], changes[i+1], 1)
	}
	m, err := readMetrics(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return &answer{node: "worker-1", metrics: m, now: time.Unix(1_800_000_002, 0)}
}

func TestTable(t *testing.T) {
	t.Parallel()
	acts := said(t, calm, "evictd_dry_run 1", "evictd_dry_run 0", `evictd_under_pressure{signal="memory.available"} 0`, `evictd_under_pressure{signal="memory.available"} 1`,
		`evictd_pressure{kind="Soft",signal="memory.available"} 0`, `evictd_pressure{kind="Soft",signal="memory.available"} 1`,
		`{signal="memory.available"} 8.589934592e+09`, `{signal="memory.available"} 6.44245094e+08`)
	acts.node, acts.decisions = "worker-2", []decision{{Verb: "Held"}, {Verb: "Acted", Victim: "shop/web-1", Time: acts.now.Add(-3 * time.Minute)}}
	var printed bytes.Buffer
	if err := writeTable(&printed, []*answer{said(t, calm), acts}); err != nil {
		t.Fatal(err)
	}
	want := `NODE      MODE     PRESSURE               NEAREST THRESHOLD                    LAST EVICTION      LAST TICK  VERSION
worker-1  dry run  none                   memory.available 7.0Gi above soft    none               1s ago     v0.1.0
worker-2  acts     memory.available soft  memory.available 102.4Mi above hard  3m ago shop/web-1  1s ago     v0.1.0
`
	if diff := cmp.Diff(want, printed.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	printed.Reset()
	if err := writeTable(&printed, nil); err != nil || printed.Len() > 0 {
		t.Errorf("without an answer: %q, %v; want nothing", printed.String(), err)
	}
}

// The reason why an agent does not act is its mode, but for its own configuration.
func TestModeSaysWhyAnAgentDoesNotAct(t *testing.T) {
	t.Parallel()
	for _, reason := range acting.Reasons() {
		want := modes()[reason]
		if reason == acting.Configured {
			want = "dry run"
		}
		page := calm + "# TYPE evictd_dry_run_reason gauge\n"
		for _, one := range acting.Reasons() {
			value := 0
			if one == reason {
				value = 1
			}
			page += fmt.Sprintf("evictd_dry_run_reason{reason=%q} %d\n", one, value)
		}
		if got := said(t, page).mode(); got != want || want == "" {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

// What an agent does not tell is unknown, and never zero or none.
func TestWhatIsNotToldIsUnknown(t *testing.T) {
	t.Parallel()
	a := said(t, "# TYPE evictd_build_info gauge\nevictd_build_info{version=\"\"} 1\n")
	got := []string{a.mode(), a.pressure(), a.nearest(), a.lastEviction(), a.lastTick(), a.version()}
	if diff := cmp.Diff([]string{unknown, unknown, unknown, unknown, unknown, unknown}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := readMetrics(strings.NewReader("up 1\n")); err == nil || !strings.Contains(err.Error(), "they are not evictd's") {
		t.Errorf("the page of another program: %v", err)
	}
	if _, err := readMetrics(strings.NewReader("<html>\n")); err == nil {
		t.Error("a page that is no metrics is read")
	}
}

func TestPressure(t *testing.T) {
	t.Parallel()
	const under, not = `evictd_under_pressure{signal="memory.available"} 1`, `evictd_under_pressure{signal="memory.available"} 0`
	for want, changes := range map[string][]string{
		"none": nil,
		"memory.available in grace or transition": {not, under},
		"memory.available hard":                   {not, under, `evictd_pressure{kind="Hard",signal="memory.available"} 0`, `evictd_pressure{kind="Hard",signal="memory.available"} 1`},
		"imagefs.available unknown":               {`evictd_signal_state{signal="imagefs.available",state="Unknown"} 0`, `evictd_signal_state{signal="imagefs.available",state="Unknown"} 1`},
		"memory.available in grace or transition, imagefs.available unknown": {
			not, under, `evictd_signal_state{signal="imagefs.available",state="Unknown"} 0`, `evictd_signal_state{signal="imagefs.available",state="Unknown"} 1`,
		},
	} {
		if got := said(t, calm, changes...).pressure(); got != want {
			t.Errorf("pressure %q, want %q", got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	const memory = `evictd_signal_available_bytes{signal="memory.available"} 8.589934592e+09`
	for want, changes := range map[string][]string{
		"memory.available 7.0Gi above soft":                nil,
		"memory.available 0 above soft":                    {memory, `evictd_signal_available_bytes{signal="memory.available"} 1.073741824e+09`},
		"memory.available 256.0Mi below hard":              {memory, `evictd_signal_available_bytes{signal="memory.available"} 2.68435456e+08`},
		"nodefs.available 2.0Gi above hard":                {`{signal="nodefs.available"} 8.589934592e+10`, `{signal="nodefs.available"} 1.288490189e+10`},
		"memory.stall 100ms above hard":                    {`{signal="memory.stall"} 2`, `{signal="memory.stall"} 1.9`, memory, ""},
		"memory.available 7.0Gi above soft, hard in 1m30s": {`{signal="memory.available"} +Inf`, `{signal="memory.available"} 90`},
		"nodefs.available 70.0Gi above hard":               {memory, "", `evictd_signal_capacity_seconds{signal="memory.stall"} 2`, ""},
	} {
		if got := said(t, calm, changes...).nearest(); got != want {
			t.Errorf("nearest %q, want %q", got, want)
		}
	}
}

func TestLastEviction(t *testing.T) {
	t.Parallel()
	a := said(t, calm)
	evicted := decision{Verb: "Acted", Victim: "shop/web-1", Time: a.now.Add(-time.Minute), DryRun: true}
	for want, decisions := range map[string][]decision{
		"none":                         {{Verb: "Held"}, {Verb: "Refused"}, {Verb: "Acted"}},
		"60s ago shop/web-1 (dry run)": {{Verb: "Escalated", Victim: "shop/other", Time: a.now}, evicted},
	} {
		if a.decisions = decisions; a.lastEviction() != want {
			t.Errorf("last eviction %q, want %q", a.lastEviction(), want)
		}
	}
	const would = `evictd_evictions_total{dry_run="true",outcome="WouldEvict",signal="memory.available"} `
	if got := said(t, calm, would+"0", would+"2").lastEviction(); got != "before its last decisions" {
		t.Errorf("counted, and no more among the decisions: %q", got)
	}
	if _, err := readDecisions(strings.NewReader("{")); err == nil {
		t.Error("decisions that are no JSON are read")
	}
}
