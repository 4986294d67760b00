package record_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// series returns the series of a metric, "" for all: their labels and their values.
func series(t *testing.T, r *rig, name string) (all []map[string]string, values []float64) {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				labels := map[string]string{}
				for _, pair := range m.GetLabel() {
					labels[pair.GetName()] = pair.GetValue()
				}
				all = append(all, labels)
				values = append(values, m.GetGauge().GetValue()+m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()))
			}
		}
	}
	return all, values
}

// value returns a series' value; it fails when there is none.
func value(t *testing.T, r *rig, name string, labels ...string) float64 {
	t.Helper()
	all, values := series(t, r, name)
	for i, have := range all {
		matches := true
		for at := 0; at < len(labels); at += 2 {
			matches = matches && have[labels[at]] == labels[at+1]
		}
		if matches {
			return values[i]
		}
	}
	t.Errorf("no series %s%v", name, labels)
	return -1
}

// expect compares all series of a metric: the values of their labels, in the order of their names, and
// the series' value.
func expect(t *testing.T, r *rig, name string, want ...string) {
	t.Helper()
	var got []string
	all, values := series(t, r, name)
	for i, labels := range all {
		var text string
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			text += labels[label] + " "
		}
		got = append(got, text+fmt.Sprint(values[i]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

func TestASignalThatIsNotKnownHasNoFigure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"evictd_signal_available_bytes", "evictd_signal_capacity_bytes", "evictd_pressure", "evictd_threshold_line_bytes"} {
		expect(t, r, name)
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
	expect(t, r, "evictd_signal_available_bytes", "allocatableMemory.available -5", "memory.available 0")
	expect(t, r, "evictd_signal_capacity_bytes", "allocatableMemory.available 90", "memory.available 100")
	expect(t, r, "evictd_threshold_line_bytes", "Hard memory.available 50", "Soft memory.available 70")
	for is, want := range map[string]float64{"Known": 0, "Unknown": 1, "Absent": 0} {
		if got := value(t, r, "evictd_signal_state", "signal", "pid.available", "state", is); got != want {
			t.Errorf("pid.available %s = %v, want %v", is, got, want)
		}
	}
	if got := value(t, r, "evictd_pressure", "signal", "memory.available", "kind", "Hard"); got != 1 {
		t.Errorf("hard pressure = %v, want 1", got)
	}
	if got := value(t, r, "evictd_pressure", "signal", "memory.available", "kind", "Soft"); got != 0 {
		t.Errorf("soft pressure = %v, want 0", got)
	}
	if got := value(t, r, "evictd_read_errors_total", "source", "Proc"); got != 1 {
		t.Errorf("failed readings of /proc = %v, want 1", got)
	}
}

func TestEverySeriesIsThereBeforeTheFirstEviction(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Sample(sampleOf(start), &pressure.Verdict{Time: start})
	for _, signal := range pressure.Signals() {
		for _, outcome := range evict.Outcomes() {
			dryRun := fmt.Sprint(outcome.Simulated())
			if got := value(t, r, "evictd_evictions_total", "signal", signal.String(), "outcome", string(outcome), "dry_run", dryRun); got != 0 {
				t.Errorf("evictions of %s, %s = %v, want 0", signal, outcome, got)
			}
		}
		for _, hold := range decide.Holds() {
			value(t, r, "evictd_holds_total", "signal", signal.String(), "hold", string(hold))
		}
		for _, verb := range decide.Verbs() {
			value(t, r, "evictd_decisions_total", "signal", signal.String(), "verb", string(verb))
		}
	}
	for _, protection := range rank.Protections() {
		value(t, r, "evictd_ranked_pods", "protection", string(protection))
	}
	for _, source := range record.Sources() {
		value(t, r, "evictd_read_errors_total", "source", source)
	}
	for signal, unit := range map[string]string{"memory.available": "bytes", "allocatableMemory.available": "bytes", "pid.available": "tasks"} {
		value(t, r, "evictd_reclaim_expected_"+unit+"_total", "signal", signal)
		value(t, r, "evictd_reclaim_actual_"+unit+"_total", "signal", signal)
	}
	for _, request := range record.APIRequests() {
		for _, code := range []string{"None", "401", "403", "429", "4xx", "5xx"} {
			value(t, r, "evictd_api_errors_total", "request", request, "code", code)
		}
	}
	before := names(t, r)
	for range 3 {
		r.Decision(decision())
		r.Decision(held(decide.HoldLimitReached))
		r.Decision(bypassedBudget())
		r.Decision(escalated(evict.Evicted))
	}
	r.Failed("a source without a name", nil)
	r.VictimEnded(ended())
	r.APIError("a request without a name", 599)
	r.APIError(record.RequestEvent, 418)
	if after := names(t, r); after != before {
		t.Errorf("%d series before and %d after the first decisions", before, after)
	}
}

// names counts the series.
func names(t *testing.T, r *rig) int {
	t.Helper()
	n, err := testutil.GatherAndCount(r.registry)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestADecisionIsCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Decision(decision())
	r.Decision(held(decide.HoldReclaimInProgress))
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"evictd_evictions_total", []string{"signal", "memory.available", "outcome", "Evicted", "dry_run", "false"}, 1},
		{"evictd_evictions_total", []string{"signal", "memory.available", "outcome", "BlockedByBudget", "dry_run", "false"}, 1},
		{"evictd_evictions_total", []string{"signal", "memory.available", "outcome", "BlockedByBudget", "dry_run", "true"}, 0},
		{"evictd_decisions_total", []string{"signal", "memory.available", "verb", "Acted"}, 1},
		{"evictd_decisions_total", []string{"signal", "nodefs.inodesFree", "verb", "Held"}, 1},
		{"evictd_holds_total", []string{"signal", "nodefs.inodesFree", "hold", "ReclaimInProgress"}, 1},
		{"evictd_eviction_request_duration_seconds", []string{"outcome", "Evicted"}, 1},
		{"evictd_reaction_seconds", nil, 1},
		{"evictd_ranked_pods", []string{"protection", "None"}, 4},
		{"evictd_ranked_pods", []string{"protection", "Self"}, 1},
		{"evictd_ranked_pods", []string{"protection", "NoUsageSample"}, 1},
	} {
		if got := value(t, r, want.name, want.labels...); got != want.value {
			t.Errorf("%s%v = %v, want %v", want.name, want.labels, got, want.value)
		}
	}
}

// An outcome that was found out later is one more outcome, and no request that took no time.
func TestAnOutcomeThatWasFoundOutLaterHasNoDuration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := decision()
	for i := range d.Attempts {
		d.Attempts[i].Result.Sent, d.Attempts[i].Result.Took = time.Time{}, 0
	}
	r.Decision(d)
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"evictd_evictions_total", []string{"signal", "memory.available", "outcome", "Evicted", "dry_run", "false"}, 1},
		{"evictd_eviction_request_duration_seconds", []string{"outcome", "Evicted"}, 0},
		{"evictd_reaction_seconds", nil, 0},
	} {
		if got := value(t, r, want.name, want.labels...); got != want.value {
			t.Errorf("%s%v = %v, want %v", want.name, want.labels, got, want.value)
		}
	}
}

// TestWhatIsForcedIsCounted: a repeated request for a victim is not a second eviction; a pod that
// bypassed its budget is counted as such.
func TestWhatIsForcedIsCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Decision(bypassedBudget())
	r.Decision(escalated(evict.Evicted))
	unread := held(decide.HoldBudgetUnknown)
	unread.BestEffort, unread.DryRun = decide.BestEffortBudgetUnknown, true
	r.Decision(unread)
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"evictd_evictions_total", []string{"signal", "memory.available", "outcome", "Deleted", "dry_run", "false"}, 1},
		{"evictd_evictions_total", []string{"signal", "memory.available", "outcome", "Evicted", "dry_run", "false"}, 0},
		{"evictd_escalations_total", []string{"outcome", "Evicted", "dry_run", "false"}, 1},
		{"evictd_best_effort_total", []string{"result", "Deleted", "dry_run", "false"}, 1},
		{"evictd_best_effort_total", []string{"result", "BudgetUnknown", "dry_run", "true"}, 1},
		{"evictd_decisions_total", []string{"signal", "memory.available", "verb", "Escalated"}, 1},
	} {
		if got := value(t, r, want.name, want.labels...); got != want.value {
			t.Errorf("%s%v = %v, want %v", want.name, want.labels, got, want.value)
		}
	}
}

func TestGauges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Acting(acting.State{Reason: acting.Stopped})
	r.Tick(start, 250*time.Millisecond)
	r.Ledger(start, []decide.Victim{{Deadline: start.Add(time.Second)}, {Deadline: start.Add(-time.Second)}}, 3, 4)
	r.InForce(nil, true)
	r.Refused(errors.New("x"), "")
	r.APIError(record.RequestEviction, 503)
	r.APIError(record.RequestEviction, 429)
	r.APIError(record.RequestEviction, 404)
	r.APIError("a request without a name", 0)
	r.age = 90 * time.Second
	for name, want := range map[string]float64{
		"evictd_dry_run": 1, "evictd_victims_in_flight": 2, "evictd_victims_stuck": 1, "evictd_watch_age_seconds": 90,
		"evictd_last_tick_timestamp_seconds":   float64(start.UnixMilli())/1000 + .25,
		"evictd_config_last_reload_successful": 0,
		"evictd_pods_blocked_by_budget":        3,
		"evictd_pods_misconfigured":            4,
	} {
		if got := value(t, r, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if got := value(t, r, "evictd_config_reloads_total", "result", "Failure"); got != 1 {
		t.Errorf("refused reloads = %v, want 1", got)
	}
	for code, request := range map[string]string{"5xx": "Eviction", "429": "Eviction", "4xx": "Eviction", "None": "Other"} {
		if got := value(t, r, "evictd_api_errors_total", "request", request, "code", code); got != 1 {
			t.Errorf("%s requests that failed with %s: %v, want 1", request, code, got)
		}
	}
	r.unread = errors.New("it has never")
	expect(t, r, "evictd_watch_age_seconds")
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

// A forecast that is not known is missing; never is not a number of seconds.
func TestForecastMetric(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	verdict := pressure.Verdict{Time: start}
	verdict.Forecasts[pressure.MemoryAvailable] = pressure.Forecast{Known: true, After: 90 * time.Second}
	verdict.Forecasts[pressure.NodeFSAvailable] = pressure.Forecast{Known: true, After: pressure.Never}
	verdict.Forecasts[pressure.PIDAvailable] = pressure.Forecast{Known: true}
	r.Sample(sampleOf(start), &verdict)
	expect(t, r, "evictd_forecast_seconds", "memory.available 90", "nodefs.available +Inf", "pid.available 0")
}

// everything makes every family have a series.
func everything(r *rig) {
	var thresholds []pressure.Threshold
	for _, signal := range pressure.Signals() {
		thresholds = append(thresholds, pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(1), Hard: true})
	}
	r.InForce(thresholds, false)
	verdict := pressure.Verdict{Time: start}
	verdict.Forecasts[pressure.MemoryAvailable] = pressure.Forecast{Known: true, After: pressure.Never}
	r.Sample(sampleOf(start), &verdict)
	r.KubeletThresholds(&kubeletconfig.Configuration{}, &kubeletconfig.Result{Compared: []pressure.Signal{pressure.MemoryAvailable}})
	r.KubeletHeadroom(&kubeletconfig.Headroom{}, true)
	r.Confined(true)
	for _, signal := range []pressure.Signal{
		pressure.NodeFSAvailable, pressure.NodeFSInodesFree, pressure.ImageFSAvailable, pressure.ImageFSInodesFree,
	} {
		d := held(decide.HoldInsufficientReclaim)
		d.Pressure.Threshold.Signal, d.Breakdown = signal, brokenDown()
		r.Decision(d)
	}
}

// brokenDown is a breakdown with every part.
func brokenDown() decide.Breakdown {
	return decide.Breakdown{
		decide.PartLayers: 10, decide.PartLogs: 20, decide.PartEmptyDirs: 30, decide.PartDeleted: 0, decide.PartOther: 40,
	}
}

// What a disk is used by is shown while it is known, and no longer than the pressure.
func TestDiskUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const name = "evictd_disk_used_inodes"
	insufficient := held(decide.HoldInsufficientReclaim)
	p := insufficient.Pressure
	r.Sample(sampleOf(start), &pressure.Verdict{Time: start, Pressures: []pressure.Pressure{p}})
	expect(t, r, name)
	insufficient.Breakdown = brokenDown()
	r.Decision(insufficient)
	expect(t, r, name, "Deleted nodefs.inodesFree 0", "EmptyDirs nodefs.inodesFree 30", "Layers nodefs.inodesFree 10", "Logs nodefs.inodesFree 20", "Other nodefs.inodesFree 40")
	delete(insufficient.Breakdown, decide.PartDeleted)
	r.Decision(insufficient)
	memory := decision() // it changes nothing here
	memory.Breakdown = decide.Breakdown{decide.PartOther: 1}
	r.Decision(memory)
	expect(t, r, name, "EmptyDirs nodefs.inodesFree 30", "Layers nodefs.inodesFree 10", "Logs nodefs.inodesFree 20", "Other nodefs.inodesFree 40")
	r.Decision(held(decide.HoldUsageUnknown))
	expect(t, r, name)
	r.Decision(partlyMeasured())
	expect(t, r, name, "EmptyDirs nodefs.inodesFree 30", "Layers nodefs.inodesFree 10")
	r.Decision(insufficient)
	r.Sample(sampleOf(start.Add(time.Second)), &pressure.Verdict{Time: start.Add(time.Second)})
	expect(t, r, name)
}

// TestFailures: each failure is counted, and logged about once a minute with how many were not.
func TestFailures(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		message string
		metric  []string // and its labels
		key     string   // of what
	}{
		record.FailedWatch:        {"watching the node's pods failed", []string{"evictd_watch_errors_total"}, ""},
		taint.Failure:             {"tainting the node failed", []string{"evictd_taint_errors_total"}, ""},
		string(state.WriteSlow):   {"writing the state file failed or was slow", []string{"evictd_state_write_failures_total", "reason", "WriteSlow"}, "reason"},
		string(state.WriteFailed): {"writing the state file failed or was slow", []string{"evictd_state_write_failures_total", "reason", "WriteFailed"}, "reason"},
		"Usage":                   {"reading failed", []string{"evictd_read_errors_total", "source", "Usage"}, "source"},
	} {
		r := newRig(t)
		for range 3 {
			r.Failed(what, errors.New("planted"))
		}
		*r.now = r.now.Add(2 * time.Minute)
		r.Failed(what, errors.New("planted"))
		lines := r.lines(t)
		if len(lines) != 2 || lines[1]["msg"] != test.message || lines[1]["repeats"] != 2. || lines[1]["error"] != "planted" || test.key != "" && lines[1][test.key] != what {
			t.Errorf("%s: logged %v", what, lines)
		}
		if len(test.metric) > 0 {
			if got := value(t, r, test.metric[0], test.metric[1:]...); got != 4 {
				t.Errorf("%s: counted %v, want 4", what, got)
			}
		}
	}
}

// TestMetricsDoc keeps docs/metrics.md as the registry is.
func TestMetricsDoc(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	everything(r)
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString(metricsHead)
	for _, row := range rowsOf(families) {
		fmt.Fprintf(&out, "| %s |%s\n", code(row.names), row.rest)
	}
	out.WriteString("\n## Values of the labels\n\nEvery series is there from the start, so that the first eviction is an increase.\n\n| label | values |\n|---|---|\n")
	values := map[string][]string{}
	for _, family := range families {
		for name, set := range labelsOf(family) {
			values[name] = slices.Sorted(maps.Keys(merge(set, values[name])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == "version" || name == "go_version" {
			continue
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", name, code(values[name]))
	}
	compare(t, "../../docs/metrics.md", out.String())
}

// row is a row of the page: metrics that differ in their unit alone are in one.
type row struct {
	names []string
	rest  string
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
	r := newRig(t)
	everything(r)
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`^([A-Z]+[a-z]+)+$`)
	given := map[string]*regexp.Regexp{
		"signal": regexp.MustCompile(`^[a-zA-Z]+\.[a-zA-Z]+$`), "taint": regexp.MustCompile(`^evictd\.dev/[a-z-]+$`),
		"code": regexp.MustCompile(`^([45](xx|[0-9]{2})|None)$`), "dry_run": regexp.MustCompile(`^(true|false)$`),
		"overran": regexp.MustCompile(`^(true|false)$`), "version": regexp.MustCompile(`.`), "go_version": regexp.MustCompile(`.`),
	}
	for _, family := range families {
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

Generated by ` + "`make generate`" + `. No label holds a pod's or a namespace's name: who was evicted and why is in the log, in Events and at ` + "`/debug/decisions`" + ` ([runbook.md](runbook.md)). A figure that is not known is missing, never 0.

| metric | type | labels | meaning |
|---|---|---|---|
`

func labelsOf(family *dto.MetricFamily) map[string]map[string]bool {
	labels := map[string]map[string]bool{}
	for _, m := range family.GetMetric() {
		for _, pair := range m.GetLabel() {
			if labels[pair.GetName()] == nil {
				labels[pair.GetName()] = map[string]bool{}
			}
			labels[pair.GetName()][pair.GetValue()] = true
		}
	}
	return labels
}

func merge(set map[string]bool, more []string) map[string]bool {
	for _, v := range more {
		set[v] = true
	}
	return set
}

func code(words []string) string {
	quoted := make([]string, 0, len(words))
	for _, w := range words {
		quoted = append(quoted, "`"+w+"`")
	}
	return strings.Join(quoted, ", ")
}
