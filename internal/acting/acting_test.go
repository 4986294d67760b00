package acting

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// TestMain switches off what client-go does about errors: it waits by a time that all tests share,
// and each bubble has its own.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil //nolint:reassign // client-go has no other way to say so
	os.Exit(m.Run())
}

// api is an API server with one ConfigMap.
type api struct {
	mu      sync.Mutex
	stop    *corev1.ConfigMap // nil where there is none
	fault   error             // of requests for the ConfigMap; nil when they are answered
	watches *watch.FakeWatcher
}

// answer says how a request with such options is answered: nil when it is.
func (a *api) answer(options metav1.ListOptions) error {
	if options.FieldSelector != "metadata.name="+StopName {
		return errors.New("the Role allows one name alone: " + options.FieldSelector)
	}
	return a.fault
}

func (a *api) List(_ context.Context, options metav1.ListOptions) (*corev1.ConfigMapList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	if a.stop != nil {
		list.Items = append(list.Items, *a.stop)
	}
	return list, a.answer(options)
}

func (a *api) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.answer(options); err != nil {
		return nil, err
	}
	a.watches = watch.NewFakeWithChanSize(10, false)
	return a.watches, nil
}

// IsWatchListSemanticsUnSupported says that this is a list, and then a watch.
func (*api) IsWatchListSemanticsUnSupported() bool { return true }

func (a *api) change(do func()) {
	a.mu.Lock()
	do()
	a.mu.Unlock()
	synctest.Wait()
}

func stopFor(reason string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "evictd", Name: StopName, ResourceVersion: "2"}, Data: map[string]string{"reason": reason},
	}
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, StopName, errors.New("no right"))
}

// with runs an Acting of a server in a bubble, and tells what happens once it has its first answer.
func with(t *testing.T, server *api, tell func(a *Acting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := New(server, "evictd", time.Now)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		synctest.Wait()
		tell(a)
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// want fails the test unless the state has that reason and its text those parts.
func want(t *testing.T, s State, reason Reason, parts ...string) {
	t.Helper()
	if s.Reason != reason || s.Acts() != (reason == Acts) {
		t.Errorf("%q, want %q: %+v", s.Reason, reason, s)
	}
	for _, part := range parts {
		if !strings.Contains(s.Why+"; "+s.Do, part) {
			t.Errorf("%+v lacks %q", s, part)
		}
	}
}

// Without an answer of the API server no agent acts.
func TestNothingIsKnownAtTheStart(t *testing.T) {
	t.Parallel()
	a := New(&api{}, "evictd", time.Now)
	want(t, a.Of(false, false), StopUnknown, "not known yet", "evictd/evictd-stop")
	if !a.Of(false, false).Unanswered || a.Of(true, false).Unanswered {
		t.Error("what was never known is not told from what is")
	}
	if do := a.Of(false, false).Do; do != "" {
		t.Errorf("an answer that is awaited needs nothing to be done: %q", do)
	}
}

// The first reason is reported: an administrator who stops evictd sees by it which agents know.
func TestConfigMapStopsAndItsEndResumes(t *testing.T) {
	t.Parallel()
	server := &api{}
	with(t, server, func(a *Acting) {
		want(t, a.Of(false, false), Acts)
		<-a.Changed()

		server.change(func() { server.watches.Add(stopFor("bad\nrules")) })
		want(t, a.Of(false, false), Stopped, `ConfigMap evictd/evictd-stop stops it: "bad\nrules"`, "delete ConfigMap")
		want(t, a.Of(true, false), Stopped)
		select {
		case <-a.Changed():
		default:
			t.Error("the loop is not woken")
		}
		server.change(func() { server.watches.Modify(stopFor("")) })
		want(t, a.Of(false, false), Stopped, "gives no reason")
		server.change(func() { server.watches.Delete(stopFor("")) })
		want(t, a.Of(false, false), Acts)
		want(t, a.Of(true, false), Configured, "dryRun is true")
		want(t, a.Of(true, true), Configured, "--dry-run")
		other := stopFor("")
		other.Name = "another"
		server.change(func() { server.watches.Add(other) })
		want(t, a.Of(false, false), Acts)
	})
}

// A new binary under an old Role does not act, and says what to do; the same each time, so that it
// is said once.
func TestWithoutTheRightNoAgentActs(t *testing.T) {
	t.Parallel()
	server := &api{fault: forbidden()}
	with(t, server, func(a *Acting) {
		said := a.Of(false, false)
		want(t, said, StopUnknown, "may not watch", "apply the Role")
		time.Sleep(10 * time.Minute)
		if again := a.Of(false, false); again != said {
			t.Errorf("%+v, then %+v", said, again)
		}
		want(t, a.Of(true, false), Configured) // it would not act anyway

		server.change(func() { server.fault = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want(t, a.Of(false, false), Acts)
	})
}

// Without an API server no eviction can be sent either: what was known last holds. A stop that was
// made meanwhile is in force within five seconds after the API server is back.
func TestWithoutAnAPIServerTheLastStateHolds(t *testing.T) {
	t.Parallel()
	for name, before := range map[Reason]*corev1.ConfigMap{Acts: nil, Stopped: stopFor("x")} {
		server := &api{stop: before}
		with(t, server, func(a *Acting) {
			server.change(func() {
				server.fault = errors.New("connection refused")
				server.watches.Stop()
			})
			time.Sleep(time.Hour)
			want(t, a.Of(false, false), name)

			server.change(func() { server.fault, server.stop = nil, stopFor("made meanwhile") })
			time.Sleep(5 * time.Second)
			synctest.Wait()
			want(t, a.Of(false, false), Stopped, "made meanwhile")
		})
	}
}

// An API server that refuses the watch may still accept evictions: its last answer holds for a
// moment alone.
func TestLastStateOfARefusedWatchEnds(t *testing.T) {
	t.Parallel()
	server := &api{}
	with(t, server, func(a *Acting) {
		server.change(func() {
			server.fault = forbidden()
			server.watches.Stop()
		})
		time.Sleep(refusedFor - 5*time.Second)
		want(t, a.Of(false, false), Acts)
		time.Sleep(10 * time.Second)
		want(t, a.Of(false, false), StopUnknown, "may not watch")
		if a.Of(false, false).Unanswered {
			t.Error("it was known before")
		}
	})
}
