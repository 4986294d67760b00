package record_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

func TestASignalThatIsNotKnownHasNoFigure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, is := r.series()[`evictd_pressure{kind="Hard",signal="memory.available"}`]; is {
		t.Error("a pressure before the first sample")
	}
	r.InForce([]pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(.5), Hard: true},
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(70), Grace: time.Minute},
		{Signal: pressure.PIDAvailable, Quantity: pressure.Fraction(.5), Hard: true},
	}, false)
	s := &pressure.Sample{Time: start}
	for i := range s.Observations {
		s.Observations[i].State = pressure.Absent
	}
	s.Observations[pressure.MemoryAvailable] = pressure.Observation{State: pressure.Known, Available: 0, Capacity: 100}
	s.Observations[pressure.AllocatableMemoryAvailable] = pressure.Observation{State: pressure.Known, Available: -5, Capacity: 90}
	s.Observations[pressure.PIDAvailable] = unknown("x")
	held := pressureOn(pressure.MemoryAvailable, pressure.Fraction(.5), 0, 100)
	r.Sample(s, &pressure.Verdict{Time: start, Pressures: []pressure.Pressure{held}})
	got := r.series()
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return !regexp.MustCompile(`^evictd_(signal_(available|capacity)|threshold_line|(signal_state|pressure|failures).*"(memory.available|pid.available|Proc)")`).MatchString(name)
	})
	want := map[string]float64{
		`evictd_signal_available_bytes{signal="allocatableMemory.available"}`: -5, `evictd_signal_available_bytes{signal="memory.available"}`: 0,
		`evictd_signal_capacity_bytes{signal="allocatableMemory.available"}`: 90, `evictd_signal_capacity_bytes{signal="memory.available"}`: 100,
		`evictd_threshold_line_bytes{kind="Hard",signal="memory.available"}`: 50, `evictd_threshold_line_bytes{kind="Soft",signal="memory.available"}`: 70,
		`evictd_pressure{kind="Hard",signal="memory.available"}`: 1, `evictd_pressure{kind="Soft",signal="memory.available"}`: 0,
		`evictd_signal_state{signal="memory.available",state="Known"}`: 1, `evictd_signal_state{signal="pid.available",state="Known"}`: 0,
		`evictd_signal_state{signal="memory.available",state="Unknown"}`: 0, `evictd_signal_state{signal="pid.available",state="Unknown"}`: 1,
		`evictd_signal_state{signal="memory.available",state="Absent"}`: 0, `evictd_signal_state{signal="pid.available",state="Absent"}`: 0,
		`evictd_failures_total{source="Proc"}`: 1,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestEverySeriesIsThereBeforeTheFirstEviction(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Sample(sampleOf(start), &pressure.Verdict{Time: start})
	before := r.series()
	there := func(format string, values ...any) {
		t.Helper()
		if got, is := before[fmt.Sprintf("evictd_"+format, values...)]; !is || got != 0 {
			t.Errorf(format+": %v, %t; want 0", append(values, got, is)...)
		}
	}
	for _, signal := range pressure.Signals() {
		for _, outcome := range evict.Outcomes() {
			there(`evictions_total{outcome=%q,signal=%q}`, outcome, signal.String())
		}
		for _, hold := range decide.Holds() {
			there(`holds_total{hold=%q,signal=%q}`, hold, signal.String())
		}
	}
	for _, source := range []string{"Proc", "Cgroup", "Filesystem", "Usage", "Disk", "Images", "Host", "Watch", "State", "Taint"} {
		there(`failures_total{source=%q}`, source)
	}
	for _, source := range []pressure.WakeSource{pressure.WakeNode, pressure.WakeKubepods} {
		there(`wakeups{source=%q}`, source)
		there(`stall_events_total{source=%q}`, source)
	}
	for range 3 {
		r.Decision(decision())
		r.Decision(held(decide.HoldLimitReached))
		r.Decision(bypassedBudget())
		r.Decision(escalated(evict.Evicted))
	}
	r.VictimEnded(ended())
	if after := r.series(); len(after) != len(before) {
		t.Errorf("%d series before and %d after the first decisions", len(before), len(after))
	}
}

func TestMetricNamesFollowTheConventions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	everything(r)
	problems, err := testutil.GatherAndLint(r.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestATickThatChangesNothingAllocatesNothing(t *testing.T) {
	r := newRig(t)
	s, v := sampleOf(start), &pressure.Verdict{Time: start, Pressures: []pressure.Pressure{decision().Pressure}}
	s.Observations[pressure.PIDAvailable] = unknown("x")
	r.Sample(s, v)
	if n := testing.AllocsPerRun(100, func() {
		r.Sample(s, v)
		r.Tick(start, time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations a tick, want 0", n)
	}
}

// everything makes every family have a series.
func everything(r *rig) {
	var thresholds []pressure.Threshold
	verdict := pressure.Verdict{Time: start}
	for _, signal := range pressure.Signals() {
		thresholds = append(thresholds, pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(1), Hard: true})
		verdict.Pressures = append(verdict.Pressures, pressure.Pressure{Threshold: pressure.Threshold{Signal: signal}})
	}
	verdict.Forecasts[pressure.MemoryAvailable] = pressure.Forecast{Known: true, After: pressure.Never}
	r.InForce(thresholds, false)
	r.Sample(sampleOf(start), &verdict)
	r.KubeletThresholds([]kubeletconfig.Finding{{Signal: pressure.MemoryAvailable}})
	r.Confined(true)
}

// brokenDown is a breakdown with every part.
func brokenDown() decide.Breakdown {
	return decide.Breakdown{
		decide.PartLayers: 10, decide.PartLogs: 20, decide.PartEmptyDirs: 30, decide.PartDeleted: 0, decide.PartOther: 40,
	}
}

// TestMetricsDoc keeps docs/metrics.md as the registry is.
func TestMetricsDoc(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	all := families(t)
	out.WriteString(metricsHead)
	for _, row := range rowsOf(all) {
		fmt.Fprintf(&out, "| %s |%s\n", code(row.names), row.rest)
	}
	out.WriteString("\n## Values of the labels\n\nEvery counter has its series from the start, so that the first eviction is an increase. What is not known has none.\n\n| label | values |\n|---|---|\n")
	values := labelsOf(all...)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == "version" || name == "go_version" {
			continue
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", name, code(slices.Sorted(maps.Keys(values[name]))))
	}
	compare(t, "../../docs/metrics.md", out.String())
}

// row is a row of the page: metrics that differ in their unit alone are in one.
type row struct {
	names []string
	rest  string
}

// families returns what the registry has once every family has a series.
func families(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	r := newRig(t)
	everything(r)
	all, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func rowsOf(families []*dto.MetricFamily) (rows []row) {
	for _, family := range families {
		rest := fmt.Sprintf(" %s | %s | %s |", strings.ToLower(family.GetType().String()),
			code(slices.Sorted(maps.Keys(labelsOf(family)))), family.GetHelp())
		if last := len(rows) - 1; last >= 0 && rows[last].rest == rest {
			rows[last].names = append(rows[last].names, family.GetName())
			continue
		}
		rows = append(rows, row{names: []string{family.GetName()}, rest: rest})
	}
	return rows
}

// A label's values are CamelCase tokens that do not change, as reasons in Kubernetes. Values
// that others have given their form stay as they are.
func TestLabelValuesAreTokens(t *testing.T) {
	t.Parallel()
	token := regexp.MustCompile(`^([A-Z]+[a-z]+)+$`)
	given := map[string]*regexp.Regexp{
		"signal":  regexp.MustCompile(`^[a-zA-Z]+\.[a-zA-Z]+$`),
		"code":    regexp.MustCompile(`^([45](xx|[0-9]{2})|None)$`),
		"overran": regexp.MustCompile(`^(true|false)$`), "version": regexp.MustCompile(`.`), "go_version": regexp.MustCompile(`.`),
	}
	for _, family := range families(t) {
		for label, values := range labelsOf(family) {
			form := cmp.Or(given[label], token)
			for value := range values {
				if !form.MatchString(value) {
					t.Errorf("%s{%s=%q} is no token", family.GetName(), label, value)
				}
			}
		}
	}
}

const metricsHead = `# Metrics

Generated by ` + "`make generate`" + `. No label holds a pod's or a namespace's name: who was evicted and why is in the log, in Events and at ` + "`/debug/status`" + ` ([runbook.md](runbook.md)). A figure that is not known is missing, never 0.

| metric | type | labels | meaning |
|---|---|---|---|
`

// labelsOf returns the labels of families with all their values.
func labelsOf(families ...*dto.MetricFamily) map[string]map[string]bool {
	labels := map[string]map[string]bool{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				if labels[pair.GetName()] == nil {
					labels[pair.GetName()] = map[string]bool{}
				}
				labels[pair.GetName()][pair.GetValue()] = true
			}
		}
	}
	return labels
}

func code(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}
