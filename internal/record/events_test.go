package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// resourceOf says what pods are ranked by for each signal.
func resourceOf(s pressure.Signal) rank.Resource {
	switch s.Unit() {
	case pressure.Inodes:
		return rank.Inodes
	case pressure.Tasks:
		return rank.PIDs
	case pressure.Microseconds:
		return rank.Memory
	case pressure.Bytes:
	}
	if strings.Contains(s.String(), "fs.") {
		return rank.Disk
	}
	return rank.Memory
}

// TestEventTexts has one text for each kind of signal and one for each outcome.
func TestEventTexts(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := func(title string, d *agent.Decision) {
		r := newRig(t)
		r.Decision(d)
		fmt.Fprintf(&out, "## %s\n", title)
		for _, e := range r.events.all {
			fmt.Fprintf(&out, "%s %s on %s:\n  %s\n", e.kind, e.reason, e.object, e.message)
		}
		out.WriteString("\n")
	}
	for _, signal := range pressure.Signals() {
		d := decision()
		d.Pressure = pressureOn(signal, pressure.Fraction(.1), 30000, 400000)
		if signal.Unit() == pressure.Bytes {
			d.Pressure = pressureOn(signal, pressure.Fraction(.1), 700*mi, 16*gi)
		}
		ranked := pods()
		if signal.Unit() == pressure.Inodes || signal.Unit() == pressure.Tasks {
			for i := range ranked {
				ranked[i].Usage, ranked[i].Request = ranked[i].Usage/mi, 0
			}
		}
		d.Ranking = rank.Order(resourceOf(signal), ranked, rank.Rules{})
		d.Attempts = d.Attempts[1:]
		d.Attempts[0].Entry = d.Ranking.Candidates[0]
		show(signal.String(), d)
	}
	for _, dryRun := range []bool{false, true} {
		for _, outcome := range evict.Outcomes() {
			d := decision()
			d.DryRun = dryRun
			d.Pressure.Threshold.Hard, d.Pressure.Threshold.Quantity = false, pressure.Absolute(gi)
			d.Pressure.Line, d.Pressure.Target = gi, gi
			d.Attempts = d.Attempts[:1]
			d.Attempts[0].Result = evict.Result{Outcome: outcome, Message: "as the API server says it."}
			if outcome == evict.Deleted || outcome == evict.WouldDelete {
				d.Attempts[0].Past = &evict.Budget{Name: "hog-pdb", Desired: 3, Healthy: 3}
			}
			show(fmt.Sprintf("%s, dry run %t", outcome, dryRun), d)
		}
	}
	show("a grace period cut short", cutShort())
	show("a victim that is asked for again", escalated(evict.Evicted))
	show("a victim that is asked for again, and refused", escalated(evict.Denied))
	show("a bare pod", func() *agent.Decision {
		d := decision()
		d.Attempts = d.Attempts[1:]
		d.Attempts[0].Entry.Pod.Owner, d.Attempts[0].GraceSeconds = "", nil
		return d
	}())
	for _, hold := range agent.Holds() {
		show(string(hold), held(hold))
	}
	golden(t, "testdata/events.golden", out.String())
}

func TestALongAnswerLeavesTheFigures(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := decision()
	d.Attempts = d.Attempts[:1]
	d.Attempts[0].Result = evict.Result{Outcome: evict.Denied, Message: strings.Repeat("né", 5000)}
	r.Decision(d)
	text := r.events.all[0].message
	if len(text) > 1024 || !strings.Contains(text, "rank 1 of 4 candidates") || strings.ContainsRune(text, '�') {
		t.Errorf("message of %d bytes: %s", len(text), text)
	}
}

// What the shipped admission policy says to a request for another node's pod.
func TestADenialIsRecordedInThePolicysWords(t *testing.T) {
	t.Parallel()
	const words = `evictd on node "a" may evict only pods of that node, and pod shop/web is on node "b"`
	r := newRig(t)
	d := decision()
	d.Attempts = d.Attempts[:1]
	d.Attempts[0].Result = evict.Result{Outcome: evict.Denied, Message: words}
	r.Decision(d)
	if event := r.events.all[0]; event.reason != record.ReasonDenied || !strings.Contains(event.message, words) {
		t.Errorf("the Event: %+v", event)
	}
	attempts, _ := r.lines(t)[0]["attempts"].([]any)
	attempt, _ := attempts[0].(map[string]any)
	if attempt["outcome"] != string(evict.Denied) || attempt["message"] != words {
		t.Errorf("the attempt in the log: %v", attempt)
	}
}

func TestTheNodeIsToldOfAHoldOncePerChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 10 {
		r.Decision(held(agent.HoldNoCandidates))
	}
	r.Decision(held(agent.HoldIncomplete))
	r.Decision(held(agent.HoldSettling))
	r.Decision(held(agent.HoldNoCandidates))
	if n := len(r.events.all); n != 3 {
		t.Errorf("%d Events on the node for 3 changes", n)
	}
}

// server is an API server that takes Events.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	created []corev1.Event
	patched int
	delay   time.Duration
	hang    chan struct{} // nil: answer
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.hang != nil {
		select {
		case <-s.hang:
		case <-r.Context().Done():
		}
		return
	}
	time.Sleep(s.delay)
	body, err := io.ReadAll(r.Body)
	var event corev1.Event
	if err = errors.Join(err, json.Unmarshal(body, &event)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	if r.Method == http.MethodPost {
		s.created = append(s.created, event)
	} else {
		s.patched++
	}
	s.mu.Unlock()
	event.Name = "e"
	w.Header().Set("Content-Type", "application/json")
	if err = json.NewEncoder(w).Encode(event); err != nil {
		panic(err)
	}
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.created)
}

func (s *server) events(t *testing.T) *record.Events {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: s.URL, QPS: -1, Timeout: time.Minute,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return record.NewEvents(client, "node-1", "evictd")
}

// recorder is one that writes to the server.
func recorder(t *testing.T, e *record.Events) *record.Recorder {
	t.Helper()
	logger, err := record.NewLogger("error", "json", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.New(logger, prometheus.NewRegistry(), e, record.Settings{NodeName: "node-1", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// evicted is a decision that evicts the i-th pod of a StatefulSet: one name.
func evicted(i int) *agent.Decision {
	d := decision()
	d.Attempts = d.Attempts[1:]
	pod := *d.Attempts[0].Entry.Pod
	pod.Name, pod.UID = fmt.Sprintf("db-%d", i%2), fmt.Sprintf("uid-%d", i)
	d.Attempts[0].Entry.Pod = &pod
	return d
}

// TestFortyEvictionsAreFortyEvents is what client-go's defaults fail: they merge
// from the tenth and drop from the 26th on.
func TestFortyEvictionsAreFortyEvents(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	e := s.events(t)
	r := recorder(t, e)
	for i := range 40 {
		r.Decision(evicted(i))
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.count(); n != 40 || s.patched != 0 {
		t.Fatalf("%d Events created and %d patched for 40 evictions", n, s.patched)
	}
	uids := map[string]bool{}
	for _, event := range s.created {
		uids[string(event.InvolvedObject.UID)] = true
		if event.Reason != record.ReasonRequested || strings.Contains(event.Message, "combined") ||
			event.InvolvedObject.Kind != "Pod" || event.Namespace != "shop" || event.Source.Component != "evictd" {
			t.Errorf("Event %s on %v: %s", event.Reason, event.InvolvedObject, event.Message)
		}
	}
	if len(uids) != 40 {
		t.Errorf("%d pods have Events, want 40", len(uids))
	}
}

// TestOnePodRefusedOverAndOverIsNotSpam also asserts that it gets its Event when
// it goes at last: the filter's key has the reason.
func TestOnePodRefusedOverAndOverIsNotSpam(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	e := s.events(t)
	r := recorder(t, e)
	for i := range 100 {
		d := evicted(0)
		d.Attempts[0].Result = evict.Result{Outcome: evict.BlockedByBudget, Budget: "db"}
		d.Pressure.Observed.Available -= int64(i) * mi // another text each time
		r.Decision(d)
	}
	r.Decision(evicted(0))
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	reasons := map[string]int{}
	for _, event := range s.created {
		reasons[event.Reason]++
	}
	if reasons[record.ReasonBlocked] != 5 || reasons[record.ReasonRequested] != 1 {
		t.Errorf("Events by reason = %v, want 5 blocked and 1 requested", reasons)
	}
}

func TestCloseSendsWhatIsQueued(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.delay = 5 * time.Millisecond
	e := s.events(t)
	r := recorder(t, e)
	for i := range 40 {
		r.Decision(evicted(i))
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.count(); n != 40 {
		t.Errorf("%d of 40 Events were sent before Close returned", n)
	}
	for _, event := range s.created {
		if event.Reason == "Flush" {
			t.Error("the mark at the end of the queue was sent")
		}
	}
}

func TestCloseGivesUpInTime(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.hang = make(chan struct{})
	defer close(s.hang)
	e := s.events(t)
	r := recorder(t, e)
	r.Decision(evicted(0)) // returns although the server does not answer
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close = %v, want that the deadline passed", err)
	}
}
