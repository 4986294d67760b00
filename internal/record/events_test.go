package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// resourceOf says what pods are ranked by for each signal.
func resourceOf(s pressure.Signal) rank.Resource {
	return map[pressure.Kind]rank.Resource{
		pressure.MemoryKind: rank.Memory, pressure.PIDKind: rank.PIDs, pressure.SpaceKind: rank.Disk, pressure.InodeKind: rank.Inodes,
	}[s.Kind()]
}

// TestEventTexts has one text for each kind of signal and one for each outcome.
func TestEventTexts(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := func(title string, d *decide.Decision) {
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
				d.Attempts[0].Bypassed = &evict.Budget{Name: "hog-pdb", Desired: 3, Healthy: 3}
			}
			show(fmt.Sprintf("%s, dry run %t", outcome, dryRun), d)
		}
	}
	show("a victim that is evicted again", escalated(evict.Evicted))
	show("a victim that is evicted again, and refused", escalated(evict.Denied))
	show("a bare pod", func() *decide.Decision {
		d := decision()
		d.Attempts = d.Attempts[1:]
		d.Attempts[0].Entry.Pod.Owner, d.Attempts[0].GraceSeconds = "", nil
		return d
	}())
	for _, hold := range decide.Holds() {
		show(string(hold), held(hold))
	}
	show("a disk that was filled elsewhere", filledElsewhere())
	unknown := filledElsewhere()
	delete(unknown.Breakdown, decide.PartDeleted)
	show("memory that the host takes", takenByTheHost())
	show("a disk whose deleted files are not known", unknown)
	show("a disk of which not all pods are measured", partlyMeasured())
	nothing := partlyMeasured()
	nothing.Breakdown = decide.Breakdown{}
	show("a disk of which no pod is measured", nothing)
	before := filledElsewhere()
	before.Notes = []string{"the figures of 2 pods are from before the pressure; those of shop/web are 4m0s old"}
	show("a disk by old figures", before)
	compare(t, "testdata/events.golden", out.String())
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
	if event := r.events.all[0]; event.reason != "EvictionDenied" || !strings.Contains(event.message, words) {
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
		r.Decision(held(decide.HoldNoCandidates))
	}
	r.Decision(held(decide.HoldIncompleteReading))
	r.Decision(held(decide.HoldAwaitingNewerSample))
	r.Decision(held(decide.HoldNoCandidates))
	if n := len(r.events.all); n != 3 {
		t.Errorf("%d Events on the node for 3 changes", n)
	}
}

// While the pods are measured nothing is said on the node; that some could not be is.
func TestTheNodeIsToldOfPodsThatAreNotMeasured(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Decision(held(decide.HoldUsageUnknown))
	if n := len(r.events.all); n != 0 {
		t.Errorf("%d Events before anything is measured", n)
	}
	for range 10 {
		r.Decision(partlyMeasured())
	}
	if n := len(r.events.all); n != 1 {
		t.Errorf("%d Events on the node for one change", n)
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
	return record.NewEvents(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)}, "node-1", "evictd", time.Now)
}

// recorder is one that writes to the server.
func recorder(t *testing.T, e *record.Events) *record.Recorder {
	t.Helper()
	logger, err := record.NewLogger("error", "json", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return record.New(logger, prometheus.NewRegistry(), e, record.Settings{NodeName: "node-1", Now: time.Now})
}

// evicted is a decision that evicts the i-th pod of a StatefulSet: two names, and each
// time another amount.
func evicted(i int) *decide.Decision {
	d := decision()
	d.Attempts = d.Attempts[1:]
	pod := *d.Attempts[0].Entry.Pod
	pod.Name, pod.UID = fmt.Sprintf("db-%d", i%2), fmt.Sprintf("uid-%d", i)
	pod.Usage += int64(i) * mi
	pod.Owner, pod.OwnerUID = "StatefulSet/db", "uid-of-db"
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
	if n := s.count(); n != 80 || s.patched != 0 {
		t.Fatalf("%d Events created and %d patched for 40 evictions, want one on each pod and 40 on the owner", n, s.patched)
	}
	uids := map[string]int{}
	for _, event := range s.created {
		uids[string(event.InvolvedObject.UID)]++
		if event.Reason != "EvictionRequested" || strings.Contains(event.Message, "combined") ||
			event.Namespace != "shop" || event.Source.Component != "evictd" ||
			event.InvolvedObject.APIVersion != map[string]string{"Pod": "v1", "StatefulSet": "apps/v1"}[event.InvolvedObject.Kind] {
			t.Errorf("Event %s on %v: %s", event.Reason, event.InvolvedObject, event.Message)
		}
	}
	if len(uids) != 41 || uids["uid-of-db"] != 40 {
		t.Errorf("Events by UID %v, want one on each of 40 pods and 40 on their owner", uids)
	}
}

// kept is an API server in the bubble's time: it keeps the Events that it takes, and
// refuses while it is told to.
func kept(t *testing.T, refuse func(*corev1.Event) error) (*record.Recorder, *record.Events, func() []corev1.Event) {
	t.Helper()
	client := fake.NewClientset()
	var mu sync.Mutex
	var taken []corev1.Event
	client.PrependReactor("*", "events", func(action ktesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(ktesting.CreateAction)
		if !ok {
			return true, nil, errors.New("only creating an Event is expected here")
		}
		event, ok := create.GetObject().(*corev1.Event)
		if !ok {
			return true, nil, errors.New("not an Event")
		}
		if err := refuse(event); err != nil {
			return true, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		taken = append(taken, *event)
		return true, event, nil
	})
	e := record.NewEvents(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)}, "node-1", "evictd", time.Now)
	return recorder(t, e), e, func() []corev1.Event {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(taken)
	}
}

func nothing(*corev1.Event) error { return nil }

// TestFortyEvictionsOfOneOwnerInTenMinutes fails with a filter's key that does not tell
// the pods of an owner apart: seven Events would be left.
func TestFortyEvictionsOfOneOwnerInTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, e, taken := kept(t, nothing)
		for i := range 40 {
			r.Decision(evicted(i))
			time.Sleep(15 * time.Second)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		by := map[string]int{}
		for _, event := range taken() {
			by[event.InvolvedObject.Kind]++
		}
		if by["Pod"] != 40 || by["StatefulSet"] != 40 {
			t.Errorf("Events by kind %v, want 40 on pods and 40 on their owner", by)
		}
	})
}

// TestOwnerOfPodsThatAreRefusedIsToldNowAndThen: forty pods, each refused every half minute for
// an hour.
func TestOwnerOfPodsThatAreRefusedIsToldNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, e, taken := kept(t, nothing)
		for round := range 120 {
			for i := range 40 {
				d := evicted(i)
				d.Attempts[0].Result = evict.Result{Outcome: evict.Denied, Message: fmt.Sprintf("round %d", round)}
				r.Decision(d)
			}
			time.Sleep(30 * time.Second)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		by := map[string]int{}
		for _, event := range taken() {
			by[event.InvolvedObject.Name+" "+string(event.InvolvedObject.UID)]++
		}
		if n := by["db uid-of-db"]; n < 5 || n > 17 {
			t.Errorf("%d Events on the owner in an hour, want 5 and one every five minutes", n)
		}
		if n := by["db-0 uid-0"]; n < 5 || n > 17 {
			t.Errorf("%d Events on one pod in an hour, want 5 and one every five minutes", n)
		}
	})
}

// TestEventIsSentAgainAfter429And5xx: an Event that an overloaded API server refuses is sent again;
// client-go by itself would drop the Event at the first response.
func TestEventIsSentAgainAfter429And5xx(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"429": apierrors.NewTooManyRequestsError("try again later"),
		"500": apierrors.NewInternalError(errors.New("etcd is away")),
		"503": apierrors.NewServiceUnavailable("starting"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, e, taken := kept(t, func(*corev1.Event) error {
					if time.Since(began) < time.Minute {
						return refusal
					}
					return nil
				})
				r.Decision(evicted(0))
				time.Sleep(90 * time.Second)
				if n := len(taken()); n != 2 {
					t.Errorf("%d Events after a minute of %s, want the pod's and its owner's", n, name)
				}
				if err := e.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// One namespace in which no Event can be written keeps the others waiting for a while,
// and not for a while each.
func TestEventsThatAlwaysFailHoldTheOthersUpOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, e, taken := kept(t, func(event *corev1.Event) error {
			if event.Namespace == "shop" {
				return apierrors.NewInternalError(errors.New("the webhook does not answer"))
			}
			return nil
		})
		for i := range 20 {
			r.Decision(evicted(i))
		}
		other := evicted(20)
		other.Attempts[0].Entry.Pod.Namespace = "elsewhere"
		r.Decision(other)
		time.Sleep(3 * time.Minute)
		if n := len(taken()); n != 2 {
			t.Errorf("%d Events elsewhere after three minutes, want the pod's and its owner's", n)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestOnePodRefusedOverAndOverIsNotSpam also verifies that the pod gets its Event when it is
// finally evicted: the filter's key has the reason.
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
		if event.InvolvedObject.Kind == "Pod" {
			reasons[event.Reason]++
		}
	}
	if reasons["EvictionBlocked"] != 5 || reasons["EvictionRequested"] != 1 {
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
	if n := s.count(); n != 80 {
		t.Errorf("%d of 80 Events were sent before Close returned", n)
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
