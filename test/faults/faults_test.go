package faults

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// faults are what may go wrong between evictd and the API server, but for refused connections, which are in
// test/api, etcd, and another clock, which each story of internal/sim has.
func faults() map[string]evictdtest.Fault {
	failed, evicted := evictdtest.EvictionsFailed, evictdtest.EvictedMeanwhile
	return map[string]evictdtest.Fault{
		"no packet passes": {
			Begin: func(a *evictdtest.Agent) { a.Link.Hold() }, Met: failed,
			End: func(a *evictdtest.Agent) { a.Link.Release() },
		},
		// As when a device in between drops its state: new connections work.
		"no packet passes on the open connections, ever again": {
			Begin: func(a *evictdtest.Agent) { a.Link.Hold() }, Met: failed,
			End: func(a *evictdtest.Agent) { a.Link.Forget() },
		},
		"reset before a request arrives": {
			Begin: func(a *evictdtest.Agent) {
				a.Proxy.Instead(func(_ http.ResponseWriter, r *http.Request) bool {
					if evictdtest.IsEviction(r) {
						a.Link.Cut()
					}
					return evictdtest.IsEviction(r)
				})
			},
			Met: failed, End: func(a *evictdtest.Agent) { a.Proxy.Instead(nil) },
		},
		// The eviction succeeds, but its response is lost, and the pod cannot be read either.
		"reset before an answer arrives": {
			Begin: func(a *evictdtest.Agent) { a.LoseAnswers() }, Met: evicted,
			End: func(a *evictdtest.Agent) { a.Proxy.After(nil) },
		},
		"500": answered(failed, func(w http.ResponseWriter, _ *http.Request) bool {
			return evictdtest.Refuse(w, http.StatusInternalServerError)
		}),
		"503": answered(failed, func(w http.ResponseWriter, _ *http.Request) bool {
			return evictdtest.Refuse(w, http.StatusServiceUnavailable)
		}),
		// As priority and fairness does.
		"429": answered(failed, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "1")
			return evictdtest.Refuse(w, http.StatusTooManyRequests)
		}),
		"answers that take 4 s": answered(evicted, func(_ http.ResponseWriter, r *http.Request) bool {
			late := time.NewTimer(4 * time.Second) //nolint:forbidigo // the fault itself: a slow server
			defer late.Stop()
			select {
			case <-late.C:
			case <-r.Context().Done():
			}
			return false
		}),
		"the watch is cut": answered(evicted, func(w http.ResponseWriter, r *http.Request) bool {
			return evictdtest.IsWatch(r) && evictdtest.Refuse(w, http.StatusServiceUnavailable)
		}),
		// Evictd does not see its victim end.
		"the watch is open and silent": {
			Begin: func(a *evictdtest.Agent) { a.Proxy.HoldWatches(true) }, Met: evicted,
			End: func(a *evictdtest.Agent) { a.Proxy.HoldWatches(false) },
		},
		"the token is refused": {
			Begin: func(a *evictdtest.Agent) { a.Expire(); a.Link.Cut() }, Met: failed,
			End: func(a *evictdtest.Agent) { a.Renew() },
		},
		"another serving certificate": {
			Begin: func(a *evictdtest.Agent) { a.Proxy.Rotate(); a.Link.Cut() }, Met: evicted,
		},
	}
}

// answered is a fault in which a function responds in place of the API server.
func answered(met func(context.Context, *evictdtest.Agent) bool, answer func(http.ResponseWriter, *http.Request) bool) evictdtest.Fault {
	return evictdtest.Fault{
		Begin: func(a *evictdtest.Agent) { a.Proxy.Instead(answer); a.Link.Cut() }, Met: met,
		End: func(a *evictdtest.Agent) { a.Proxy.Instead(nil) },
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault.Run(t)
		})
	}
}

// Not parallel: every test's API server loses its store.
func TestFaultEtcdStopped(t *testing.T) {
	evictdtest.Fault{
		Begin: func(a *evictdtest.Agent) { a.Must(evictdtest.Cluster().StopProcess(t.Context(), "etcd")) },
		Met:   evictdtest.EvictionsFailed,
		End: func(a *evictdtest.Agent) {
			a.Must(evictdtest.Cluster().StartProcess(t.Context(), "etcd"))
			a.Until("the API server has its store again", func(ctx context.Context) bool {
				_, err := a.Client.CoreV1().Pods(a.Namespace).Patch(ctx, "small", types.MergePatchType,
					[]byte(`{"metadata":{"annotations":{"etcd":"back"}}}`), metav1.PatchOptions{})
				return err == nil
			})
		},
	}.Run(t)
}

// When evictd starts while the API server is not available, it reports that it is not ready, and why, and
// evicts no pod that it does not know.
func TestFaultAtTheStart(t *testing.T) {
	t.Parallel()
	a := evictdtest.NewAgent(t)
	a.Link.Refuse()
	a.Launch()
	a.Press()
	a.Until("evictd is alive", func(ctx context.Context) bool {
		status, _ := a.Evictd.Get(ctx, "/livez")
		return status == http.StatusOK
	})
	a.Ticks(5)
	if status, text := a.Evictd.Get(t.Context(), "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "pods are not known") {
		t.Errorf("/readyz: %d %q, want 503 and why", status, text)
	}
	a.Link.Listen()
	a.Until("evictd is ready", a.Ready)
	a.ExpectVictims("large")
}
