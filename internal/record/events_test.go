package record_test

import (
	"fmt"
	"maps"
	"slices"
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
)

// sending runs a test with a recorder whose Events go to an API server in the bubble's time, which answers each after a
// wait, and returns those that it took by the end.
func sending(t *testing.T, wait func(), test func(r *record.Recorder)) (taken []*corev1.Event) {
	t.Helper()
	var mu sync.Mutex // the clientset's own is held while it waits
	client := fake.NewClientset()
	client.PrependReactor("*", "events", func(action ktesting.Action) (bool, runtime.Object, error) {
		wait()
		mu.Lock()
		defer mu.Unlock()
		if create, is := action.(ktesting.CreateAction); is {
			event, _ := create.GetObject().(*corev1.Event)
			taken = append(taken, event)
			return true, event, nil
		}
		t.Errorf("only creating an Event is expected here: %v", action)
		return true, &corev1.Event{}, nil
	})
	events := record.NewEvents(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)}, "node-1")
	test(record.New(zap.NewNop(), prometheus.NewRegistry(), events, record.Settings{NodeName: "node-1", Now: time.Now}))
	events.Close()
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(taken)
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

// refused is [evicted] of one pod with another outcome, and other figures each time.
func refused(round int, result evict.Result) *decide.Decision {
	d := evicted(0)
	d.Attempts[0].Result = result
	d.Pressure.Observed.Available -= int64(round) * mi
	return d
}

// TestPaceOfEvents: what client-go's defaults fail: they merge from the tenth and drop from the 26th on. All are sent
// before Close returns, unless the API server is slow. One pod that is refused over and over is told now and then, and
// when it is finally evicted, as is the node: the filter's key has the reason.
func TestPaceOfEvents(t *testing.T) {
	t.Parallel()
	eachIsEvicted := func(r *record.Recorder, i int) { r.Decision(evicted(i)) }
	for name, test := range map[string]struct {
		answers, between time.Duration
		times            int
		record           func(r *record.Recorder, i int)
		objects          int
		want             map[string]int
	}{
		"forty evictions at once, to a slow API server": {
			5 * time.Millisecond, 0, 40, eachIsEvicted, 41, map[string]int{"Pod EvictionRequested": 40, "Node EvictionRequested": 40},
		},
		"forty evictions in ten minutes": {
			0, 15 * time.Second, 40, eachIsEvicted, 41, map[string]int{"Pod EvictionRequested": 40, "Node EvictionRequested": 40},
		},
		"a pod that is refused each half minute for an hour": {0, 30 * time.Second, 120, func(r *record.Recorder, i int) {
			r.Decision(refused(0, evict.Result{Outcome: evict.Denied, Message: fmt.Sprintf("round %d", i)}))
		}, 1, map[string]int{"Pod EvictionDenied": 16}},
		"a pod that is refused over and over, beside a hold, and evicted": {0, 0, 100, func(r *record.Recorder, i int) {
			r.Decision(refused(i, evict.Result{Outcome: evict.BlockedByBudget, Budget: "db"}))
			hold := held(decide.HoldNoCandidates)
			hold.Time, hold.Pressure.Observed.Available = start.Add(time.Duration(i)*record.AgainAfter), int64(i)
			r.Decision(hold)
			if i == 99 {
				r.Decision(evicted(0))
			}
		}, 2, map[string]int{"Pod EvictionBlocked": 5, "Node EvictionHeld": 5, "Pod EvictionRequested": 1, "Node EvictionRequested": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, objects := map[string]int{}, map[string]bool{}
				for _, event := range sending(t, func() { time.Sleep(test.answers) }, func(r *record.Recorder) {
					for i := range test.times {
						test.record(r, i)
						time.Sleep(test.between)
					}
				}) {
					on := event.InvolvedObject
					got[on.Kind+" "+event.Reason]++
					objects[on.Name+" "+string(on.UID)] = true
					namespace := map[string]string{"Pod": "shop", "Node": "default"}[on.Kind]
					if strings.Contains(event.Message, "combined") || event.Namespace != namespace ||
						event.Source.Component != "evictd" || on.APIVersion != "v1" {
						t.Errorf("Event %s on %v in %s: %s", event.Reason, on, event.Namespace, event.Message)
					}
				}
				if !maps.Equal(got, test.want) || len(objects) != test.objects {
					t.Errorf("Events %v on %d objects, want %v on %d", got, len(objects), test.want, test.objects)
				}
			})
		})
	}
}

// Neither a decision nor the end waits for an API server that does not answer.
func TestCloseGivesUpInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		sending(t, func() { <-hang }, func(r *record.Recorder) { r.Decision(evicted(0)) })
		close(hang)
	})
}
