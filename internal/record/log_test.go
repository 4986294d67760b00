package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func kept(t *testing.T, r *rig) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, text := range r.LastDecisions() {
		var one map[string]any
		if err := json.Unmarshal(text, &one); err != nil {
			t.Fatalf("a decision is no JSON object: %v\n%s", err, text)
		}
		all = append(all, one)
	}
	return all
}

func TestADecisionIsOneLineAndTheSameInTheRing(t *testing.T) {
	t.Parallel()
	refused := decision()
	refused.Attempts, refused.DryRun = refused.Attempts[:1], true
	refused.Attempts[0].Result.RetryAfter = 10 * time.Second
	for name, d := range map[string]*decide.Decision{
		"acted": decision(), "pressed": pressed(), "bypassed a budget": bypassedBudget(), "escalated": escalated(evict.Evicted), "forecast": forecast(), "fenced": fenced(), "refused": refused, "filled elsewhere": filledElsewhere(), "taken by the host": takenByTheHost(), "held": held(decide.HoldNoCandidates), "nearly empty": {Time: start},
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
		if diff := cmp.Diff(lines[0], kept(t, r)[0]); diff != "" {
			t.Errorf("%s: the log and what is kept differ (-log +kept):\n%s", name, diff)
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
	for i, part := range memoryParts() {
		d.Breakdown[part] = int64(i) * 100 * mi
	}
	d.Outside = []decide.Process{{Name: "leak", Unit: "leak.service", RSS: 9 * gi}, {Name: "by hand", RSS: gi}}
	return d
}

// partlyMeasured is a decision about a disk of which some pods' use is not known.
func partlyMeasured() *decide.Decision {
	d := held(decide.HoldInsufficientReclaim)
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

// pressed is a decision that did not wait for a victim.
func pressed() *decide.Decision {
	d := decision()
	d.Pressure.Forecast = pressure.Forecast{Known: true, Rate: 1 << 27, Exhausted: 4 * time.Second}
	return d
}

// ended is a victim that has ended a second after its deadline.
func ended() *decide.Ended {
	expected := 300 * mi
	return &decide.Ended{
		Victim: decide.Victim{
			Namespace: "shop", Name: "over", UID: "uid-over", Signal: "memory.available",
			Accepted: start, Deadline: start.Add(45 * time.Second), Ended: start.Add(46 * time.Second),
		},
		Signal: pressure.MemoryAvailable, Expected: &expected,
		Last: new(290 * mi), Freed: new(310 * mi),
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
	logger := record.NewLogger("warn", "console", &out)
	logger.Info("quiet")
	logger.Warn("loud")
	if text := out.String(); strings.Contains(text, "quiet") || !strings.Contains(text, "loud") {
		t.Errorf("console log at warn = %q", text)
	}
}

func TestTheRingKeepsEvictionsThroughAnHourOfHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	acted := decision()
	acted.Pressure = pressureOn(pressure.NodeFSInodesFree, pressure.Absolute(1000), 900, 60000)
	r.Decision(acted)
	for range 500 {
		r.Decision(held(decide.HoldBackingOff))
	}
	page := kept(t, r)
	if len(page) != 2 || page[0]["hold"] != "BackingOff" || page[1]["verb"] != "Acted" {
		t.Fatalf("the ring holds %d decisions, want the hold and the eviction before it", len(page))
	}
	from := func(entry int, after time.Duration) bool {
		return page[entry]["time"] == start.Add(after).Format(time.RFC3339Nano)
	}
	if !from(0, 499*record.AgainAfter) {
		t.Errorf("the hold is from %v; want the last", page[0]["time"])
	}
	for i := range 100 {
		d := decision()
		d.Time = start.Add(time.Duration(i) * time.Minute)
		r.Decision(d)
	}
	page = kept(t, r)
	if len(page) != 64 || !from(0, 99*time.Minute) || !from(63, 36*time.Minute) {
		t.Errorf("the ring holds %d, from %v to %v; want the last 64, the newest first", len(page), page[0]["time"], page[len(page)-1]["time"])
	}
}

func TestAnIntentIsNoDecision(t *testing.T) {
	t.Parallel()
	r, d := newRig(t), decision()
	r.Intent(d, &d.Attempts[0])
	if all := kept(t, r); len(all) != 0 {
		t.Errorf("%v is kept, want none", all)
	}
}

func TestTheRingKeepsNothingOfTheDecision(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := decision()
	r.Decision(d)
	before := kept(t, r)
	d.Attempts[1].Entry.Pod.Name = "changed"
	d.Ranking.Candidates[2].Pod.Name = "changed"
	*d.Attempts[1].GraceSeconds = 99
	d.InFlight[0].Name = "changed"
	if diff := cmp.Diff(before, kept(t, r)); diff != "" {
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
		func(int) { r.OOMKilled(&nodepods.Pod{}, nodepods.OOMKilled{}) },
		func(int) { _ = kept(t, r) },
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

// Each Event is in one of the golden files.
func TestEveryReasonIsShown(t *testing.T) {
	t.Parallel()
	var shown string
	for _, path := range []string{"testdata/events.golden", "testdata/stories.golden"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(text)
	}
	for _, reason := range record.Reasons() {
		if !regexp.MustCompile("(?m)^(Normal|Warning) " + reason + " on ").MatchString(shown) {
			t.Errorf("no story and no outcome or hold gives reason %s", reason)
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
