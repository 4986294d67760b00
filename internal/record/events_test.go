package record_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
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
		if n := len(r.lines(t)); n != 1 {
			t.Errorf("%s: %d lines of the log, want one", title, n)
		}
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
			d := one(evict.Result{Outcome: outcome, Message: "as the API server says it."})
			d.DryRun = dryRun
			d.Pressure.Threshold.Hard, d.Pressure.Threshold.Quantity = false, pressure.Absolute(gi)
			d.Pressure.Line, d.Pressure.Target = gi, gi
			if outcome == evict.Deleted || outcome == evict.WouldDelete {
				d.Attempts[0].Bypassed = &evict.Budget{Name: "hog-pdb", Desired: 3, Healthy: 3}
			}
			show(fmt.Sprintf("%s, dry run %t", outcome, dryRun), d)
		}
	}
	show("a victim that is evicted again", escalated(evict.Evicted))
	show("a victim that is evicted again, and refused", escalated(evict.Denied))
	show("a victim that would be evicted again", escalated(evict.WouldEvict))
	show("a bare pod", changed(func(d *decide.Decision) {
		d.Attempts = d.Attempts[1:]
		d.Attempts[0].Entry.Pod.Owner, d.Attempts[0].GraceSeconds = "", nil
	}))
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
	before.Notes = []string{"the figures of 2 pods are from before the pressure: shop/api 4m0s old, shop/web 4m0s old"}
	show("a disk by old figures", before)
	compare(t, "testdata/events.golden", out.String())
}

func TestALongAnswerLeavesTheFigures(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Decision(one(evict.Result{Outcome: evict.Denied, Message: strings.Repeat("né", 5000)}))
	text := r.events.all[0].message
	if len(text) > 1024 || !strings.Contains(text, "is 1 of 4 candidates") || strings.ContainsRune(text, '�') {
		t.Errorf("message of %d bytes: %s", len(text), text)
	}
}

// taker is an API server in the bubble's time: it keeps the Events that it takes, and refuses those for which
// refuse returns an error. It merges none.
type taker struct {
	*record.Recorder
	t      *testing.T // the bubble's
	events *record.Events
	refuse func(*corev1.Event) error
	mu     sync.Mutex
	all    []corev1.Event
}

// taking runs a test with a recorder that writes to an API server.
func taking(t *testing.T, refuse func(*corev1.Event) error, test func(s *taker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, s := fake.NewClientset(), &taker{t: t, refuse: refuse}
		client.PrependReactor("*", "events", s.take)
		s.events = record.NewEvents(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)}, "node-1")
		s.Recorder = record.New(zap.NewNop(), prometheus.NewRegistry(), s.events, record.Settings{NodeName: "node-1", Now: time.Now})
		test(s)
	})
}

func (s *taker) take(action ktesting.Action) (bool, runtime.Object, error) {
	create, is := action.(ktesting.CreateAction)
	if !is {
		return true, nil, errors.New("only creating an Event is expected here")
	}
	event, is := create.GetObject().(*corev1.Event)
	if !is {
		return true, nil, errors.New("not an Event")
	}
	if s.refuse != nil {
		if err := s.refuse(event); err != nil {
			return true, nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, *event)
	return true, event, nil
}

// by counts the Events that were taken.
func (s *taker) by(of func(*corev1.Event) string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for i := range s.all {
		counts[of(&s.all[i])]++
	}
	return counts
}

func object(event *corev1.Event) string {
	return event.InvolvedObject.Name + " " + string(event.InvolvedObject.UID)
}

// end sends what is queued.
func (s *taker) end() {
	s.events.Close()
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

// refused is [evicted] with another outcome and other figures each time.
func refused(i, round int, result evict.Result) *decide.Decision {
	d := evicted(i)
	d.Attempts[0].Result = result
	d.Pressure.Observed.Available -= int64(round) * mi
	return d
}

// TestFortyEvictionsAreFortyEvents, on the pods and on the node, is what client-go's defaults fail: they merge
// from the tenth and drop from the 26th on. All are sent before Close returns, unless the API server is slow.
func TestFortyEvictionsAreFortyEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ answers, between time.Duration }{
		"at once, to a slow API server": {5 * time.Millisecond, 0}, "in ten minutes": {0, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := func(*corev1.Event) error {
				time.Sleep(test.answers)
				return nil
			}
			taking(t, slow, func(s *taker) {
				for i := range 40 {
					s.Decision(evicted(i))
					time.Sleep(test.between)
				}
				s.end()
				kinds := s.by(func(event *corev1.Event) string { return event.InvolvedObject.Kind })
				if got := s.by(object); len(got) != 41 || kinds["Pod"] != 40 || kinds["Node"] != 40 {
					s.t.Errorf("Events by object %v, want one on each of 40 pods, and 40 on the node", got)
				}
				for _, event := range s.all {
					namespace := map[string]string{"Pod": "shop", "Node": "default"}[event.InvolvedObject.Kind]
					if event.Reason != "EvictionRequested" || strings.Contains(event.Message, "combined") ||
						event.Namespace != namespace || event.Source.Component != "evictd" || event.InvolvedObject.APIVersion != "v1" {
						s.t.Errorf("Event %s on %v in %s: %s", event.Reason, event.InvolvedObject, event.Namespace, event.Message)
					}
				}
			})
		})
	}
}

// TestAPodThatIsRefusedIsToldNowAndThen: each half minute for an hour.
func TestAPodThatIsRefusedIsToldNowAndThen(t *testing.T) {
	t.Parallel()
	taking(t, nil, func(s *taker) {
		for round := range 120 {
			s.Decision(refused(0, 0, evict.Result{Outcome: evict.Denied, Message: fmt.Sprintf("round %d", round)}))
			time.Sleep(30 * time.Second)
		}
		s.end()
		if n := s.by(object)["db-0 uid-0"]; n < 5 || n > 17 {
			s.t.Errorf("%d Events in an hour, want 5 and one every five minutes", n)
		}
	})
}

// TestOnePodRefusedOverAndOverIsNotSpam also verifies that the pod and the node get their Event when it is
// finally evicted: the filter's key has the reason. A hold that is repeated, on the node, is no spam either.
func TestOnePodRefusedOverAndOverIsNotSpam(t *testing.T) {
	t.Parallel()
	taking(t, nil, func(s *taker) {
		for i := range 100 {
			s.Decision(refused(0, i, evict.Result{Outcome: evict.BlockedByBudget, Budget: "db"}))
			hold := held(decide.HoldNoCandidates)
			hold.Time, hold.Pressure.Observed.Available = start.Add(time.Duration(i)*record.AgainAfter), int64(i)
			s.Decision(hold)
		}
		s.Decision(evicted(0))
		s.end()
		got := s.by(func(event *corev1.Event) string { return event.InvolvedObject.Kind + " " + event.Reason })
		want := map[string]int{"Pod EvictionBlocked": 5, "Node EvictionHeld": 5, "Pod EvictionRequested": 1, "Node EvictionRequested": 1}
		if !maps.Equal(got, want) {
			s.t.Errorf("Events by reason %v, want %v", got, want)
		}
	})
}

func TestCloseGivesUpInTime(t *testing.T) {
	t.Parallel()
	taking(t, nil, func(s *taker) {
		hang := make(chan struct{})
		s.refuse = func(*corev1.Event) error {
			<-hang
			return nil
		}
		s.Decision(evicted(0)) // returns although the server does not answer
		s.events.Close()
		close(hang)
	})
}
