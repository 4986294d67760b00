package record_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	eventrecord "k8s.io/client-go/tools/record"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

var update = flag.Bool("update", false, "rewrite the golden files and the generated docs")

// compare compares with a file, or writes it with -update.
func compare(t *testing.T, path, got string) {
	t.Helper()
	golden.Compare(t, path, got, *update, "go test ./internal/record -update")
}

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 8000000, time.UTC)

// written is an Event that was written.
type written struct{ object, kind, reason, message string }

// events keeps what is written. No message may be longer than the API takes.
type events struct {
	eventrecord.EventRecorder // its other methods are not called

	t   *testing.T
	mu  sync.Mutex
	all []written
}

// Event keeps an Event.
func (e *events) Event(object runtime.Object, kind, reason, message string) {
	if len(message) > 1024 {
		e.t.Errorf("a message of %d bytes", len(message))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	name := "not a reference"
	if ref, ok := object.(*corev1.ObjectReference); ok {
		name = ref.Kind + " " + strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/") + " " + string(ref.UID)
	}
	e.all = append(e.all, written{name, kind, reason, message})
}

// rig is a recorder with everything it writes to.
type rig struct {
	*record.Recorder
	held     time.Duration // from the start to the next hold
	kept     int           // decisions
	t        *testing.T
	settings record.Settings
	log      *bytes.Buffer
	registry *prometheus.Registry
	events   *events
	now      *time.Time
	out      *strings.Builder   // of show
	brief    bool               // it shows Events alone
	signals  bool               // it shows what each signal has too
	shown    map[string]float64 // the series that it saw last

	kills  int64
	age    time.Duration // of the watch
	unread error         // of both
}

// Decision records a decision; each hold comes so long after the one before that it is said again. It is one line of
// the log, the same is kept, and both of them have nothing of the decision that may change later.
func (r *rig) Decision(d *decide.Decision) {
	r.t.Helper()
	if d.Verb() == decide.Held {
		d.Time = start.Add(r.held)
		r.held += record.AgainAfter
	}
	if kept := len(r.LastDecisions()); kept != r.kept {
		r.t.Errorf("%d decisions are kept, and %d were before", kept, r.kept)
	}
	before := r.log.Len()
	r.Recorder.Decision(d)
	clear(d.Attempts)
	clear(d.InFlight)
	clear(d.Ranking.Candidates)
	line, kept := r.log.String()[before:], r.LastDecisions()
	r.kept = len(kept)
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, `"msg":"decision",`+string(kept[0][1:])+"\n") {
		r.t.Errorf("logged %s, and kept %s", line, kept[0])
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	now := start
	r := &rig{t: t, log: &bytes.Buffer{}, events: &events{t: t}, now: &now, out: &strings.Builder{}, kills: 40}
	r.settings = record.Settings{
		NodeName: "node-1", Version: "v1.2.3", Now: func() time.Time { return now },
		OOMKills: func() (int64, error) { return r.kills, r.unread },
		WatchAge: func() (time.Duration, bool) { return r.age, r.unread == nil },
	}
	r.start()
	return r
}

// start begins with a new recorder.
func (r *rig) start() {
	r.t.Helper()
	r.registry = prometheus.NewPedanticRegistry()
	r.Recorder = record.New(record.NewLogger("info", "json", r.log), r.registry, r.events, r.settings)
}

// series returns the values of all series, by name{label="value"}. A histogram's is how much it counted.
func (r *rig) series() map[string]float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			all[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// pods are six pods, of which two are protected.
func pods() []rank.Pod {
	pod := func(name string, priority int32, usage, request int64) rank.Pod {
		return rank.Pod{
			Namespace: "shop", Name: name, UID: "uid-" + name, Priority: priority, Created: start,
			Usage: usage, Request: request, Sampled: true, GraceSeconds: 30,
			Owner: "ReplicaSet/" + name, OwnerUID: "owner-" + name,
		}
	}
	self := pod("evictd", 0, mi, mi)
	self.Self = true
	unsampled := pod("silent", 0, 0, 0)
	unsampled.Sampled = false
	return []rank.Pod{
		pod("hog", 5, 2*gi, gi), pod("over", 9, gi+100*mi, gi), pod("fair", 0, gi, gi), pod("small", 0, mi, gi),
		self, unsampled,
	}
}

func pressureOn(signal pressure.Signal, quantity pressure.Quantity, available, capacity int64) pressure.Pressure {
	line := quantity.Of(capacity)
	return pressure.Pressure{
		Threshold: pressure.Threshold{Signal: signal, Quantity: quantity, Hard: true},
		Observed:  pressure.Observation{State: pressure.Known, Available: available, Capacity: capacity},
		Line:      line, Target: line + line/2, Since: start.Add(-time.Second), SampleTime: start,
	}
}

// decision is one in which the first candidate is blocked and the second is evicted.
func decision() *decide.Decision {
	ranking := rank.Order(rank.Memory, pods(), rank.Rules{})
	cap10 := int64(10)
	return &decide.Decision{
		Time:     start,
		Pressure: pressureOn(pressure.MemoryAvailable, pressure.Fraction(.05), 512*mi, 16*gi),
		Ranking:  ranking,
		Attempts: []decide.Attempt{
			{Entry: ranking.Candidates[0], Result: evict.Result{
				Outcome: evict.BlockedByBudget, Budget: "hog-pdb",
				Message: "The disruption budget hog-pdb needs 3 healthy pods and has 3 currently",
				Sent:    start.Add(4 * time.Millisecond), Took: 6 * time.Millisecond,
			}},
			{Entry: ranking.Candidates[1], GraceSeconds: &cap10, Result: evict.Result{
				Outcome: evict.Evicted, Sent: start.Add(11 * time.Millisecond), Took: 20 * time.Millisecond,
			}},
		},
		InFlight: []decide.Victim{{
			Namespace: "shop", Name: "earlier", UID: "uid-earlier", Signal: "memory.available",
			Accepted: start.Add(-time.Minute), Deadline: start.Add(-15 * time.Second),
		}},
	}
}

// bypassedBudget is a decision in which the second candidate was deleted, which bypassed its budget.
func bypassedBudget() *decide.Decision {
	d := decision()
	d.Attempts[1].Bypassed = &evict.Budget{Name: "over-pdb", Desired: 5, Healthy: 4}
	d.Attempts[1].Result.Outcome = evict.Deleted
	return d
}

// escalated is a decision with an attempt to shorten a victim's grace period, with that outcome.
func escalated(outcome evict.Outcome) *decide.Decision {
	d := decision()
	d.Ranking, d.Attempts = rank.Ranking{}, d.Attempts[1:]
	a := &d.Attempts[0]
	a.Escalates, a.Result.Outcome, a.Entry.Position = true, outcome, 0
	if !outcome.Accepted() {
		a.Result.Message = "as the API server says it"
	}
	return d
}

// held is a decision to evict no pod.
func held(hold decide.Hold) *decide.Decision {
	return &decide.Decision{
		Time: start, Hold: hold, Detail: "said in one sentence",
		Pressure: pressureOn(pressure.NodeFSInodesFree, pressure.Absolute(1000), 900, 60000),
	}
}

// sampleOf is a sample in which every signal is known and has 40 of 100 left.
func sampleOf(at time.Time) *pressure.Sample {
	s := &pressure.Sample{Time: at}
	for i := range s.Observations {
		s.Observations[i] = pressure.Observation{State: pressure.Known, Available: 40, Capacity: 100}
	}
	return s
}

func unknown(text string) pressure.Observation {
	return pressure.Observation{State: pressure.Unknown, Err: errors.New(text)}
}
