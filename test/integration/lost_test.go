package integration

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

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
