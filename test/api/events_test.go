package api

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// Forty pods of one ReplicaSet on one node are evicted at once, which is harder on
// client-go's filter than ten minutes. The Events are written with the shipped rights.
func TestFortyEvictionsOfOneOwnerAreFortyEvents(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	w.Ship(evictdtest.Rights())
	pod := replica(w, "web", func(*corev1.PodTemplateSpec) {})
	config := evictdtest.Unlimited()
	config.Impersonate = rest.ImpersonationConfig{UserName: evictdtest.AccountUser}
	client, err := kubernetes.NewForConfig(config)
	w.Must(err)
	w.Until("the account may write Events", func(ctx context.Context) bool {
		_, unready := client.CoreV1().Events(w.Namespace).Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: "probe-"},
			InvolvedObject: corev1.ObjectReference{Namespace: w.Namespace},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return unready == nil
	})
	events := record.NewEvents(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceAll)}, w.Node, "evictd", time.Now)
	logger, err := record.NewLogger("error", "json", io.Discard)
	w.Must(err)
	recorder := record.New(logger, prometheus.NewRegistry(), events, record.Settings{NodeName: w.Node, Now: time.Now})
	w.Must(err)
	const evictions = 40
	for i := range evictions {
		recorder.Decision(evictionOf(pod, i))
	}
	w.Must(events.Close(t.Context()))
	onPods, onOwner := map[string]int{}, 0
	list, err := w.Client.CoreV1().Events(w.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=EvictionRequested"})
	w.Must(err)
	owner := metav1.GetControllerOf(pod)
	for i := range list.Items {
		switch object := list.Items[i].InvolvedObject; object.Kind {
		case "Pod":
			onPods[string(object.UID)]++
		default:
			if object.UID != owner.UID || object.APIVersion != owner.APIVersion || object.Kind != owner.Kind || object.Name != owner.Name {
				t.Errorf("an Event on %+v, want the owner %+v", object, owner)
			}
			onOwner++
		}
	}
	if len(onPods) != evictions || onOwner != evictions {
		t.Errorf("%d pods have Events and their owner has %d, want %d and %d", len(onPods), onOwner, evictions, evictions)
	}
	if described := w.Kubectl(t.Context(), "", "-n", w.Namespace, "describe", "replicaset", owner.Name); !strings.Contains(described, "evictd evicts pod web-39 (UID uid-39).") {
		t.Errorf("kubectl describe replicaset does not show them:\n%s", described)
	}
}

// evictionOf is a decision that evicts another pod of the same owner, each with a different
// usage.
func evictionOf(pod *corev1.Pod, i int) *decide.Decision {
	facts := nodepods.FromAPI(pod).Facts(rank.Memory, nodepods.Self{})
	facts.Name, facts.UID = fmt.Sprintf("web-%d", i), fmt.Sprintf("uid-%d", i)
	facts.Sampled, facts.Usage = true, int64(i+1)*evictdtest.Mebibyte
	ranking := rank.Order(rank.Memory, []rank.Pod{facts}, rank.Rules{})
	return &decide.Decision{
		Verb: decide.Acted, Ranking: ranking,
		Pressure: pressure.Pressure{
			Threshold: pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(500 * evictdtest.Mebibyte), Hard: true},
			Observed:  pressure.Observation{State: pressure.Known, Available: 300 * evictdtest.Mebibyte, Capacity: 16 << 10 * evictdtest.Mebibyte},
			Line:      500 * evictdtest.Mebibyte, Target: 500 * evictdtest.Mebibyte,
		},
		Attempts: []decide.Attempt{{Entry: ranking.Candidates[0], Result: evict.Result{Outcome: evict.Evicted}}},
	}
}
