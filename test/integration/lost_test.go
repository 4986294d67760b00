package integration

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watchedSince reports whether evictd's watch has delivered an event after a time.
func (s *scene) watchedSince(begun time.Time) bool {
	asked := time.Now()
	age, known := s.daemon.metric("evictd_watch_age_seconds")
	return known && asked.Add(-time.Duration(age*float64(time.Second))).After(begun)
}

// Another client force-deletes the large pod: the API server removes it at once, and its
// processes continue to run.
func TestForceDeletedPodCoversTheDeficit(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.within("evictd is ready", s.ready)
	pods := s.client.CoreV1().Pods(s.namespace)
	large, err := pods.Get(t.Context(), "large", metav1.GetOptions{})
	s.must(err)
	begun := time.Now()
	s.must(pods.Delete(t.Context(), "large", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	s.within("evictd knows it", func() bool { return s.watchedSince(begun) })
	s.pressed()
	s.within("evictd relies on it", func() bool {
		n, _ := s.daemon.metric("evictd_holds_total", "hold", "ReclaimInProgress")
		return n > 0
	})
	if _, page := s.daemon.get("/debug/decisions"); !strings.Contains(page, `"pod": "`+string(large.UID)+`"`) {
		t.Errorf("the record does not show its UID: %s", page)
	}
	s.endure(2 * time.Second)
	s.host.end(large, 1024)
	s.within("the pressure is over", func() bool {
		pressed, _ := s.daemon.metric("evictd_pressure")
		leaving, told := s.daemon.metric("evictd_victims_in_flight")
		return told && pressed == 0 && leaving == 0
	})
	if got := s.hand.taken(); len(got) != 0 {
		t.Errorf("evicted %v beside it, want no pod", got)
	}
}

// The response to an eviction is lost, and so is that of each read of the pod. The watch
// shows that the pod is terminating, and it is recorded like any other victim.
func TestLostEvictionThatTheWatchTellsOfIsOnRecord(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.hand.takes(time.Hour)
	s.start()
	s.within("evictd is ready", s.ready)
	s.proxy.after(func(r *http.Request) {
		if isEviction(r) || strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"+s.namespace+"/pods/") {
			s.link.cut()
		}
	})
	s.pressed()
	s.within("the eviction is on record", func() bool { return s.counted("Evicted") == 1 })
	s.proxy.after(nil)
	s.hand.takes(0)
	s.told("large", "EvictionRequested")
	s.within("its end is on record", func() bool { return strings.Contains(s.daemon.log.String(), "victim ended") })
	if unknown := s.counted("Unknown"); unknown != 1 {
		t.Errorf("%v requests without an answer, want the one", unknown)
	}
	if got := s.hand.taken(); !slices.Equal(got, []string{"large"}) {
		t.Errorf("evicted %v, want the large pod alone", got)
	}
}
