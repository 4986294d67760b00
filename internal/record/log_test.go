package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

func served(t *testing.T, r *rig) []map[string]any {
	t.Helper()
	answer := httptest.NewRecorder()
	r.Decisions().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/decisions", nil))
	var all []map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &all); err != nil {
		t.Fatalf("/debug/decisions is no JSON array: %v\n%s", err, answer.Body)
	}
	return all
}

func TestADecisionIsOneLineAndTheSameInTheRing(t *testing.T) {
	t.Parallel()
	refused := decision()
	refused.Verb, refused.Attempts, refused.DryRun = decide.Refused, refused.Attempts[:1], true
	refused.Attempts[0].Result.RetryAfter = 10 * time.Second
	for name, d := range map[string]*decide.Decision{
		"acted": decision(), "pressed": pressed(), "bypassed a budget": bypassedBudget(), "escalated": escalated(evict.Evicted), "forecast": forecast(), "fenced": fenced(), "refused": refused, "filled elsewhere": filledElsewhere(), "taken by the host": takenByTheHost(), "held": held(decide.HoldNoCandidates), "nearly empty": {ID: 1, Time: start, Verb: decide.Refused},
	} {
		r := newRig(t)
		r.Decision(d)
		lines := r.lines(t)
		if len(lines) != 1 || lines[0]["msg"] != "decision" {
			t.Fatalf("%s: logged %v, want one line with the message decision", name, lines)
		}
		if lines[0]["of"] == 0. {
			t.Errorf("%s: a decision that ranked no pod is of 0", name)
		}
		for _, own := range []string{"ts", "level", "msg"} {
			delete(lines[0], own)
		}
		if diff := cmp.Diff(lines[0], served(t, r)[0]); diff != "" {
			t.Errorf("%s: the log and /debug/decisions differ (-log +page):\n%s", name, diff)
		}
	}
}

// filledElsewhere is a decision that knows what uses a disk's space.
func filledElsewhere() *decide.Decision {
	d := held(decide.HoldInsufficientReclaim)
	d.Breakdown = brokenDown()
	return d
}

// takenByTheHost is a decision that knows what uses the node's memory outside the pods.
func takenByTheHost() *decide.Decision {
	d := held(decide.HoldInsufficientReclaim)
	d.Pressure = decision().Pressure
	d.Breakdown = decide.Breakdown{}
	for i, part := range hostinfo.Parts() {
		d.Breakdown[part] = int64(i) * 100 * mi
	}
	d.Outside = []decide.Process{{Name: "leak", Unit: "leak.service", RSS: 9 * gi}, {Name: "by hand", RSS: gi}}
	return d
}

// partlyMeasured is a decision about a disk of which some pods' use is not known.
func partlyMeasured() *decide.Decision {
	d := held(decide.HoldUsageUnknown)
	d.Breakdown = decide.Breakdown{decide.PartLayers: 10, decide.PartEmptyDirs: 30}
	return d
}

// forecast is a decision on a soft threshold whose hard one is near.
func forecast() *decide.Decision {
	d := decision()
	d.Pressure.Threshold.Hard, d.Pressure.Threshold.Grace = false, 30*time.Second
	d.Pressure.Forecast = pressure.Forecast{Known: true, Rate: 1 << 30, After: 1500 * time.Millisecond}
	return d
}

// fenced is a decision on a node with a priority queue.
func fenced() *decide.Decision {
	d := decision()
	d.Ranking = rank.Order(rank.Memory, pods(), rank.Rules{Queues: []rank.Queue{{
		Name: "shop", Fence: true, Offset: 7, Holds: func(namespace string, _ map[string]string) bool { return namespace == "shop" },
	}}})
	for i := range d.Attempts {
		d.Attempts[i].Entry = d.Ranking.Candidates[i]
	}
	return d
}

func TestDecisionLineTellsTheQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Decision(fenced())
	r.Decision(decision())
	lines := r.lines(t)
	if lines[0]["queue"] != "root.shop" || lines[0]["effective_priority"] != 7. {
		t.Errorf("queue %v, effective priority %v; want root.shop, 7", lines[0]["queue"], lines[0]["effective_priority"])
	}
	if _, there := lines[1]["effective_priority"]; there || lines[1]["queue"] != nil {
		t.Errorf("without queues: %v", lines[1])
	}
}

// pressed is a decision that did not wait for a victim.
func pressed() *decide.Decision {
	d := decision()
	d.Pressure.Forecast = pressure.Forecast{Known: true, Rate: 1 << 27, Exhausted: 4 * time.Second}
	return d
}

func TestLineSaysWhenTheSignalIsExhausted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := pressed()
	r.Intent(d, &d.Attempts[0])
	r.Decision(d)
	for _, line := range r.lines(t) {
		if line["exhausted_seconds"] != 4. {
			t.Errorf("%v: exhausted_seconds %v", line["msg"], line["exhausted_seconds"])
		}
	}
}

// ended is a victim that has ended a second after its deadline.
func ended() *decide.Ended {
	expected := 300 * mi
	return &decide.Ended{
		Victim: decide.Victim{
			Namespace: "shop", Name: "over", UID: "uid-over", Signal: "memory.available",
			Accepted: start, Deadline: start.Add(45 * time.Second),
		},
		Time: start.Add(46 * time.Second), Signal: pressure.MemoryAvailable, Expected: &expected,
		Reclaim: &decide.Reclaimed{Expected: 290 * mi, Actual: 310 * mi},
	}
}

func TestStuckVictimIsSaidOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	own, others, forgotten := ended().Victim, ended().Victim, ended().Victim
	others.Name, others.UID, others.Signal = "drained", "uid-drained", ""
	forgotten.Namespace, forgotten.Name, forgotten.UID, forgotten.Unlisted = "", "", "uid-forgotten", true
	all := []decide.Victim{own, others, forgotten}
	r.Ledger(own.Deadline, all, 0, 0)
	if got := r.lines(t); len(got) != 0 {
		t.Fatalf("before the deadline: %v", got)
	}
	for i := range 3 {
		r.Ledger(own.Deadline.Add(time.Duration(i+1)*time.Second), all, 0, 0)
	}
	lines := r.lines(t)
	var victims []any
	for _, line := range lines {
		victims = append(victims, line["victim"])
	}
	if diff := cmp.Diff([]any{"shop/over", "shop/drained", "uid-forgotten"}, victims); diff != "" {
		t.Errorf("said of (-want +got):\n%s", diff)
	}
	delete(lines[0], "ts")
	want := map[string]any{
		"level": "warn", "msg": "victim does not end", "victim": "shop/over", "uid": "uid-over",
		"accepted": "2026-03-04T05:06:07.008Z", "deadline": "2026-03-04T05:06:52.008Z",
	}
	if diff := cmp.Diff(want, lines[0]); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	if len(r.events.all) != 1 || r.events.all[0].reason != "EvictionStuck" || r.events.all[0].object != "Pod shop/over uid-over" {
		t.Errorf("Events %+v, want one, on the pod that evictd evicted", r.events.all)
	}
	late := own.Deadline.Add(time.Hour)
	r.Ledger(late, nil, 0, 0)
	r.Ledger(late, all[:1], 0, 0) // one that is stuck anew is said anew
	if got := r.lines(t); len(got) != 1 {
		t.Errorf("%d lines, want one", len(got))
	}
}

func TestVictimEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, kernel := ended(), 9*mi
	first.Victim.Held = &usage.Detail{Kernel: &kernel}
	r.VictimEnded(first)
	unknown := ended()
	unknown.Time, unknown.Signal, unknown.Reclaim = start.Add(45*time.Second), pressure.NodeFSAvailable, nil
	r.VictimEnded(unknown)
	lines := r.lines(t)
	want := map[string]any{
		"level": "info", "msg": "victim ended", "victim": "shop/over", "uid": "uid-over", "signal": "memory.available", "unit": "bytes",
		"accepted": "2026-03-04T05:06:07.008Z", "deadline": "2026-03-04T05:06:52.008Z", "duration_seconds": 46., "overran": true,
		"expected": float64(300 * mi), "expected_last": float64(290 * mi), "reclaimed": float64(310 * mi),
		"held": map[string]any{"kernel": float64(9 * mi)}, // what is not known is not 0
	}
	delete(lines[0], "ts")
	if diff := cmp.Diff(want, lines[0]); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	if _, told := lines[1]["reclaimed"]; told || lines[1]["overran"] != false {
		t.Errorf("without a release: %v", lines[1])
	}
	less := ended()
	less.Reclaim = &decide.Reclaimed{Expected: mi, Actual: -mi}
	r.VictimEnded(less)
	for name, want := range map[string]int64{"evictd_reclaim_expected_bytes_total": 291 * mi, "evictd_reclaim_actual_bytes_total": 310 * mi} {
		if got := value(t, r, name, "signal", "memory.available"); got != float64(want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	for overran, want := range map[string]float64{"true": 2, "false": 1} {
		if got := value(t, r, "evictd_victim_termination_seconds", "overran", overran); got != want {
			t.Errorf("overran %s: %v victims, want %v", overran, got, want)
		}
	}
}

func TestLinesTellTheForecast(t *testing.T) {
	t.Parallel()
	d := forecast()
	for _, test := range []struct {
		forecast pressure.Forecast
		want     any
	}{
		{pressure.Forecast{Known: true, After: 1500 * time.Millisecond}, 1.5},
		{pressure.Forecast{Known: true}, 0.},
		{pressure.Forecast{Known: true, After: pressure.Never}, nil},
		{pressure.Forecast{}, nil},
	} {
		r := newRig(t)
		d.Pressure.Forecast = test.forecast
		r.Decision(d)
		r.Sample(sampleOf(start), &pressure.Verdict{Time: start, Pressures: []pressure.Pressure{d.Pressure}})
		for _, line := range r.lines(t)[:2] {
			if line["forecast_seconds"] != test.want {
				t.Errorf("%v of %+v: forecast_seconds %v, want %v",
					line["msg"], test.forecast, line["forecast_seconds"], test.want)
			}
		}
	}
}

func TestDecisionLine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Decision(decision())
	compare(t, "testdata/decision.golden.json", indent(t, r.log.Bytes()))
}

func indent(t *testing.T, text []byte) string {
	t.Helper()
	var line map[string]any
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatal(err)
	}
	delete(line, "ts") // the moment of writing
	pretty, err := json.MarshalIndent(line, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(pretty) + "\n"
}

func TestIntentIsThereBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := decision()
	d.Verb = ""
	r.Intent(d, &d.Attempts[1])
	lines := r.lines(t)
	if len(lines) != 1 {
		t.Fatalf("%d lines, want 1", len(lines))
	}
	for key, want := range map[string]any{
		"msg": "sending an eviction request", "victim": "shop/over", "uid": "uid-over", "rank": 2., "of": 4.,
		"grace_seconds": 10., "signal": "memory.available", "available": float64(512 * mi), "dry_run": false,
	} {
		if lines[0][key] != want {
			t.Errorf("%s = %v, want %v", key, lines[0][key], want)
		}
	}
	if _, said := lines[0]["outcome"]; said {
		t.Error("the line before the request knows its outcome")
	}
	if len(r.events.all) != 0 || len(served(t, r)) != 0 {
		t.Error("an intent is no decision: it went to the Events or the ring")
	}
}

// What is more than an eviction is named before it happens.
func TestIntentSaysWhatIsForced(t *testing.T) {
	t.Parallel()
	past, again := bypassedBudget(), escalated(evict.Evicted)
	for _, test := range []struct {
		decision *decide.Decision
		attempt  *decide.Attempt
		message  string
		budget   any
		of       float64
	}{
		{past, &past.Attempts[0], "sending an eviction request", nil, 4},
		{past, &past.Attempts[1], "deleting a pod that its budget blocks", "over-pdb", 4},
		{again, &again.Attempts[0], "asking again with a shorter grace period", nil, 0},
	} {
		r := newRig(t)
		r.Intent(test.decision, test.attempt)
		if line := r.lines(t)[0]; line["msg"] != test.message || line["budget"] != test.budget || line["of"] != test.of {
			t.Errorf("message %q, budget %v, of %v; want %q, %v, %v", line["msg"], line["budget"], line["of"], test.message, test.budget, test.of)
		}
	}
}

// changes makes every state change there is.
func changes(r *rig) {
	at := start
	next := func(change func(*pressure.Sample), pressures ...pressure.Pressure) {
		at = at.Add(time.Second)
		s := sampleOf(at)
		if change != nil {
			change(s)
		}
		r.Sample(s, &pressure.Verdict{Time: at, Pressures: pressures})
	}
	next(nil)
	next(nil, pressureOn(pressure.MemoryAvailable, pressure.Absolute(50), 40, 100))
	next(nil, pressureOn(pressure.MemoryAvailable, pressure.Absolute(50), 40, 100))
	next(func(s *pressure.Sample) { s.Observations[pressure.MemoryAvailable] = unknown("meminfo is empty") })
	next(func(s *pressure.Sample) { s.Observations[pressure.MemoryAvailable] = unknown("meminfo is empty") })
	next(nil, pressureOn(pressure.MemoryAvailable, pressure.Absolute(50), 40, 100))
	next(nil)
	next(func(s *pressure.Sample) {
		s.Observations[pressure.NodeFSInodesFree] = pressure.Observation{State: pressure.Absent, Err: errors.New("btrfs")}
	})
}

func TestChangesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	changes(r)
	var got []string
	for _, line := range r.lines(t) {
		got = append(got, fmt.Sprintf("%v: %v: %v", line["level"], line["msg"], line["signal"]))
	}
	want := []string{
		"warn: pressure began: memory.available",
		"warn: signal is unknown: memory.available",
		"info: signal is known again: memory.available",
		"info: pressure ended: memory.available",
		"info: signal became absent: nodefs.inodesFree",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log of changes (-want +got):\n%s", diff)
	}
}

// TestFaultPressureOfAnySignalEnds: the end of a pressure is recorded whatever the signal: a stall and the
// PIDs have no breakdown of a disk.
func TestFaultPressureOfAnySignalEnds(t *testing.T) {
	t.Parallel()
	for _, signal := range pressure.Signals() {
		r := newRig(t)
		p := pressureOn(signal, pressure.Absolute(50), 40, 100)
		for i, holding := range [][]pressure.Pressure{{p}, nil} {
			at := start.Add(time.Duration(i) * time.Second)
			r.Sample(sampleOf(at), &pressure.Verdict{Time: at, Pressures: holding})
		}
		lines := r.lines(t)
		last := lines[len(lines)-1]
		if last["msg"] != "pressure ended" || last["signal"] != signal.String() {
			t.Errorf("%s: the last line is %v", signal, last)
		}
	}
}

func TestPressureBegan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Sample(sampleOf(start), &pressure.Verdict{Time: start, Pressures: []pressure.Pressure{decision().Pressure}})
	want := map[string]any{
		"level": "warn", "msg": "pressure began", "signal": "memory.available", "unit": "bytes", "kind": "Hard", "threshold": "5%",
		"available": float64(512 * mi), "capacity": float64(16 * gi), "line": 858993472., "target": 1288490208.,
		"since": "2026-03-04T05:06:06.008Z",
	}
	line := r.lines(t)[0]
	delete(line, "ts")
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

// TestAReasonIsLoggedOnceAndPaced: a lasting fault has one line, another reason another, and a file
// that appears and disappears a hundred times a second one pair a minute.
func TestAReasonIsLoggedOnceAndPaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	see := func(after time.Duration, reason string) {
		s := sampleOf(start)
		if reason != "" {
			s.Observations[pressure.MemoryAvailable] = unknown(reason)
		}
		*r.now = r.now.Add(after)
		r.Sample(s, &pressure.Verdict{Time: *r.now})
	}
	see(0, "")
	for range 100 {
		see(10*time.Millisecond, "meminfo is empty")
		see(10*time.Millisecond, "")
	}
	see(time.Minute, "meminfo is empty")
	see(time.Hour, "meminfo is empty")
	see(time.Second, "MemTotal is 0")
	see(time.Second, "")
	var got []string
	for _, line := range r.lines(t) {
		got = append(got, fmt.Sprintf("%v: %v: repeats %v", line["msg"], line["error"], line["repeats"]))
	}
	want := []string{
		"signal is unknown: meminfo is empty: repeats 0",
		"signal is known again: <nil>: repeats <nil>",
		"signal is unknown: meminfo is empty: repeats 99",
		"signal is unknown: MemTotal is 0: repeats 0",
		"signal is known again: <nil>: repeats <nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log of a fault (-want +got):\n%s", diff)
	}
}

func TestTheFirstSampleLogsOnlyWhatIsNotThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := sampleOf(start)
	s.Observations[pressure.PIDAvailable] = unknown("no loadavg")
	s.Observations[pressure.MemoryStall] = pressure.Observation{State: pressure.Absent, Err: errors.New("no PSI")}
	s.Observations[pressure.ImageFSAvailable] = pressure.Observation{State: pressure.Absent, Err: pressure.ErrUnasked}
	r.Sample(s, &pressure.Verdict{Time: start})
	lines := r.lines(t)
	if len(lines) != 2 || lines[0]["signal"] != "memory.stall" || lines[0]["error"] != "no PSI" || lines[0]["level"] != "warn" ||
		lines[1]["signal"] != "pid.available" || lines[1]["error"] != "no loadavg" {
		t.Errorf("first sample logged %v, want memory.stall absent and pid.available unknown alone", lines)
	}
}

func TestAStaleSampleChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := sampleOf(start)
	s.Observations[pressure.PIDAvailable] = unknown("x")
	r.Sample(s, &pressure.Verdict{Time: start, Stale: true})
	if text := r.log.String(); text != "" {
		t.Errorf("a stale sample logged %s", text)
	}
	if value(t, r, "evictd_signal_state", "signal", "pid.available", "state", "Known") != 0 {
		t.Error("a stale sample became the state of a signal")
	}
}

// TestNothingIsSampled is what zap's own production logger fails: it drops equal
// messages after the hundredth in a second.
func TestNothingIsSampled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 1000 {
		r.Decision(decision())
	}
	if n := len(r.lines(t)); n != 1000 {
		t.Errorf("%d lines for 1000 decisions", n)
	}
}

func TestNewLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger, err := record.NewLogger("warn", "console", &out)
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("quiet")
	logger.Warn("loud")
	if text := out.String(); strings.Contains(text, "quiet") || !strings.Contains(text, "loud") {
		t.Errorf("console log at warn = %q", text)
	}
	for _, bad := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, err := record.NewLogger(bad[0], bad[1], &out); err == nil {
			t.Errorf("level %s, format %s accepted", bad[0], bad[1])
		}
	}
}

func TestTheRingKeepsEvictionsThroughAnHourOfHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	acted := decision()
	acted.Pressure = pressureOn(pressure.NodeFSInodesFree, pressure.Absolute(1000), 900, 60000)
	r.Decision(acted)
	for i := range 500 {
		d := held(decide.HoldBackingOff)
		d.ID, d.Time = uint64(100+i), start.Add(time.Duration(i)*time.Second)
		r.Decision(d)
	}
	page := served(t, r)
	if len(page) != 2 || page[0]["hold"] != "BackingOff" || page[1]["verb"] != "Acted" {
		t.Fatalf("the ring holds %d decisions, want the hold and the eviction before it", len(page))
	}
	if page[0]["repeats"] != 499. || page[0]["id"] != 599. {
		t.Errorf("the hold says id %v, repeats %v; want the last, 599, and 499", page[0]["id"], page[0]["repeats"])
	}
	for i := range 100 {
		d := decision()
		d.ID = uint64(1000 + i)
		r.Decision(d)
	}
	page = served(t, r)
	if len(page) != 64 || page[0]["id"] != 1099. || page[63]["id"] != 1036. {
		t.Errorf("the ring holds %d, from %v to %v; want the last 64, the newest first", len(page), page[0]["id"], page[len(page)-1]["id"])
	}
}

func TestAnEmptyRingIsAnEmptyArray(t *testing.T) {
	t.Parallel()
	if page := served(t, newRig(t)); page == nil || len(page) != 0 {
		t.Errorf("page = %v, want []", page)
	}
}

func TestTheRingKeepsNothingOfTheDecision(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := decision()
	r.Decision(d)
	before := served(t, r)
	d.Attempts[1].Entry.Pod.Name = "changed"
	d.Ranking.Candidates[2].Pod.Name = "changed"
	*d.Attempts[1].GraceSeconds = 99
	d.InFlight[0].Name = "changed"
	if diff := cmp.Diff(before, served(t, r)); diff != "" {
		t.Errorf("a later change of the decision changed the record:\n%s", diff)
	}
}

func TestMethodsMayBeCalledFromAnyGoroutine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	done := make(chan struct{})
	tasks := []func(int){
		func(int) { r.Decision(decision()) },
		func(int) { d := decision(); r.Intent(d, &d.Attempts[0]) },
		func(i int) {
			s := sampleOf(start.Add(time.Duration(i)))
			if i%2 == 0 {
				s.Observations[0] = unknown("x")
			}
			r.Sample(s, &pressure.Verdict{Pressures: []pressure.Pressure{decision().Pressure}})
		},
		func(int) { r.Tick(start, time.Millisecond) },
		func(i int) { r.Ledger(start, decision().InFlight, i, i) },
		func(int) { r.Failed("Usage", errors.New("x")) },
		func(int) { r.InForce([]pressure.Threshold{decision().Pressure.Threshold}, true) },
		func(int) { r.Refused(errors.New("x"), "") },
		func(int) { r.VictimEnded(ended()) },
		func(int) { r.APIError(record.RequestList, 500) },
		func(i int) { r.KubeletHeadroom(&kubeletconfig.Headroom{Near: i%2 == 0}, true) },
		func(int) { _ = served(t, r) },
		func(int) {
			if _, err := r.registry.Gather(); err != nil {
				t.Error(err)
			}
		},
	}
	for _, task := range tasks {
		go func() {
			for i := range 50 {
				task(i)
			}
			done <- struct{}{}
		}()
	}
	for range tasks {
		<-done
	}
}

func TestEveryOutcomeAndHoldIsRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, outcome := range evict.Outcomes() {
		d := decision()
		d.Attempts = d.Attempts[:1]
		d.Attempts[0].Result.Outcome = outcome
		d.Verb = decide.Refused
		r.Decision(d)
	}
	for _, hold := range decide.Holds() {
		r.Decision(held(hold))
	}
	r.Decision(escalated(evict.Evicted))
	r.Decision(escalated(evict.WouldEvict))
	r.Ledger(start.Add(time.Hour), []decide.Victim{ended().Victim}, 0, 0)
	r.Refused(errors.New("x"), "")
	r.KubeletHeadroom(&kubeletconfig.Headroom{Near: true}, true)
	r.Acting(acting.State{Reason: acting.Stopped, Why: strings.Repeat("x", 2000), Do: "y"})
	r.Acting(acting.State{})
	if n, want := len(r.lines(t)), len(evict.Outcomes())+len(decide.Holds())+7; n != want {
		t.Errorf("%d lines, want %d", n, want)
	}
	var reasons []string
	for _, e := range r.events.all {
		reasons = append(reasons, e.reason)
		if len(e.message) > 1024 {
			t.Errorf("a message of %d bytes: the API takes 1024", len(e.message))
		}
	}
	for _, reason := range record.Reasons() {
		if !slices.Contains(reasons, reason) {
			t.Errorf("no outcome and no hold gives reason %s", reason)
		}
	}
}

// TestTheRunbookIsComplete keeps docs/runbook.md as the code is: a heading for
// every outcome and hold, a row for every Event's reason, and no
// metric that does not exist.
func TestTheRunbookIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	var wanted []string
	for _, outcome := range evict.Outcomes() {
		wanted = append(wanted, "\n### "+string(outcome)+"\n")
	}
	for _, hold := range decide.Holds() {
		wanted = append(wanted, "\n### "+string(hold)+"\n")
	}
	for _, reason := range record.Reasons() {
		wanted = append(wanted, "\n| `"+reason+"` |")
	}
	for _, want := range wanted {
		if strings.Count(page, want) != 1 {
			t.Errorf("docs/runbook.md has %q %d times, want once", strings.TrimSpace(want), strings.Count(page, want))
		}
	}
	metrics, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`evictd_[a-z_]+`).FindAllString(page, -1) {
		family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if !strings.Contains(string(metrics), "`"+family+"`") {
			t.Errorf("docs/runbook.md names %s, which docs/metrics.md does not", name)
		}
	}
}
