package integration

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A victim of soft pressure does not end. When it counts as stuck and the pressure is hard,
// it is evicted again with a shorter grace period, and no other pod is evicted. The grace
// periods are short to keep the test short.
func TestStuckVictimIsEvictedAgainWithLessTime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.hand.takes(time.Hour)
	asked := s.forcing()
	s.start("evictionSoft: {memory.available: 1Gi}", "evictionSoftGracePeriod: {memory.available: 100ms}",
		"evictionMaxPodGracePeriod: 10", "evictionHardPodGracePeriod: 2")
	s.within("evictd is ready", s.ready)
	granted := func(ctx context.Context) int64 {
		pod, err := s.client.CoreV1().Pods(s.namespace).Get(ctx, "large", metav1.GetOptions{})
		s.must(err)
		if pod.DeletionGracePeriodSeconds == nil {
			return -1
		}
		return *pod.DeletionGracePeriodSeconds
	}
	s.host.free(800)
	s.until("it is evicted by soft pressure", func(ctx context.Context) bool { return granted(ctx) == 10 })
	s.pressed()
	s.endure(15 * time.Second) // evictd counts on it for 25 s
	if got := granted(t.Context()); got != 10 {
		t.Errorf("it was evicted again while it was relied on: %d s", got)
	}
	s.until("it is evicted again", func(ctx context.Context) bool { return granted(ctx) < 10 })
	t.Logf("deletionGracePeriodSeconds is %d now", granted(t.Context()))
	s.hand.takes(0)
	s.within("the pressure is over and no pod is in flight", s.relieved)
	if got := s.hand.taken(); !slices.Equal(got, []string{"large"}) {
		t.Errorf("evicted %v, want the large pod alone", got)
	}
	all := asked()
	if len(all) != 2 || all[0].pod != "large" || all[1].pod != "large" || all[1].method != http.MethodPost ||
		*all[0].options.GracePeriodSeconds != 10 || *all[1].options.GracePeriodSeconds != 2 ||
		*all[0].options.Preconditions.UID != *all[1].options.Preconditions.UID {
		t.Errorf("requests %+v, want two for one UID, with 10 and 2 seconds", all)
	}
	for name, want := range map[string]float64{"evictd_escalations_total": 1, "evictd_evictions_total": 1} {
		if got, _ := s.daemon.metric(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	s.until("the Event is there", func(ctx context.Context) bool { return s.event(ctx, "large", "EvictionEscalated") != "" })
	if text := s.event(t.Context(), "large", "EvictionEscalated"); !strings.Contains(text, "Its grace period is 2 s now") {
		t.Errorf("the Event: %s", text)
	}
}
