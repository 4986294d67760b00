package nodepods_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/evictd/evictd/internal/nodepods"
)

// web is a pod of node-1, with its name as UID.
func web(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "7", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
	}
}

// fakeClient is the fake clientset's client of pods. It cannot stream the first list.
type fakeClient struct {
	nodepods.Client[*corev1.PodList]
	*fake.Clientset
}

func fakeOf(client *fake.Clientset) fakeClient {
	return fakeClient{client.CoreV1().Pods(metav1.NamespaceAll), client}
}

// start runs a Pods against the client until the test's bubble ends, and waits for the first list.
func start(t *testing.T, client nodepods.Client[*corev1.PodList], options nodepods.Options) *nodepods.Pods {
	t.Helper()
	options.NodeName, options.Now = "node-1", time.Now
	if options.OnError == nil {
		options.OnError = func(err error) { t.Error(err) }
	}
	pods := nodepods.New(client, options)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- pods.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v after its context ended", err)
		}
	})
	synctest.Wait()
	return pods
}

// watched runs a test with the pods of a node that lists one, and each watch when it is opened.
func watched(t *testing.T, test func(t *testing.T, pods *nodepods.Pods, watchers <-chan *watch.FakeWatcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, opened := fake.NewClientset(web("web")), make(chan *watch.FakeWatcher, 100)
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			watcher := watch.NewFake()
			opened <- watcher
			return true, watcher, nil
		})
		test(t, start(t, fakeOf(client), nodepods.Options{}), opened)
	})
}

func bookmark() *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}} }

// names returns the names of all pods.
func names(pods *nodepods.Pods) (all []string) {
	for _, pod := range pods.List() {
		all = append(all, pod.Name)
	}
	slices.Sort(all)
	return all
}

func TestPodsAreListedForOneNodeOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		pods := start(t, fakeOf(client), nodepods.Options{})
		for range 100 {
			pods.List()
		}
		var asked []string
		for _, action := range client.Actions() {
			if l, is := action.(clienttesting.ListAction); is {
				asked = append(asked, l.GetListRestrictions().Fields.String())
			}
		}
		if !pods.Synced() || len(asked) != 1 || asked[0] != "spec.nodeName=node-1" {
			t.Errorf("lists sent with selectors %q, want one with spec.nodeName=node-1", asked)
		}
	})
}

func TestPodsFollowTheWatch(t *testing.T) {
	t.Parallel()
	watched(t, func(t *testing.T, pods *nodepods.Pods, watchers <-chan *watch.FakeWatcher) {
		t.Helper()
		watcher := <-watchers
		for _, step := range []struct {
			event func()
			want  []string
		}{
			{func() {}, []string{"web"}},
			{func() { watcher.Add(web("second")) }, []string{"second", "web"}},
			{func() { watcher.Action(watch.Bookmark, bookmark()) }, []string{"second", "web"}},
			{func() { watcher.Delete(web("web")) }, []string{"second"}},
		} {
			step.event()
			synctest.Wait()
			if age, known := pods.Age(); !known || age != 0 {
				t.Errorf("age = %s, %t; each event counts", age, known)
			}
			if got := names(pods); !slices.Equal(got, step.want) {
				t.Errorf("pods %q, want %q", got, step.want)
			}
			time.Sleep(time.Minute)
			if age, known := pods.Age(); !known || age != time.Minute {
				t.Errorf("age = %s, %t; want 1m0s", age, known)
			}
		}
	})
}

func TestPodsReportErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		faults := map[string]error{"list": apierrors.NewResourceExpired("list broke"), "watch": syscall.ECONNREFUSED} // of others client-go keeps a pace by the true time
		fails := func(action clienttesting.Action) error {                                                            // once
			fault := faults[action.GetVerb()]
			delete(faults, action.GetVerb())
			return fault
		}
		client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			fault := fails(action)
			return fault != nil, nil, fault
		})
		client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
			fault := fails(action)
			return fault != nil, nil, fault
		})
		var reported []string
		pods := start(t, fakeOf(client), nodepods.Options{OnError: func(err error) { reported = append(reported, err.Error()) }})
		time.Sleep(time.Minute)
		if !pods.Synced() || !slices.EqualFunc(reported, []string{"listing: list broke", "watching: connection refused"}, strings.Contains) {
			t.Errorf("reported %q; synced %t", reported, pods.Synced())
		}
	})
}

func TestPodsThatNeverRanKnowNothing(t *testing.T) {
	t.Parallel()
	pods := nodepods.New(fakeOf(fake.NewClientset()), nodepods.Options{NodeName: "n", Now: time.Now})
	if _, known := pods.Age(); known || pods.Synced() || len(pods.List()) != 0 || pods.Stale() != nil {
		t.Error("pods that never ran know something")
	}
}

// hopeless is an API server whose every answer takes so long, and says that nothing listens there. It
// does not look at the request's context, as the reflector does not before its next attempt.
type hopeless struct {
	takes time.Duration
	asked []time.Time
}

func (h *hopeless) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	h.asked = append(h.asked, time.Now())
	time.Sleep(h.takes)
	return nil, syscall.ECONNREFUSED
}

func (h *hopeless) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	_, err := h.List(ctx, options)
	return nil, err
}

// A process that was told to end must not wait for the watch, or the kubelet kills it in the middle of whatever else
// it had to finish. However long the API server was unavailable, it is contacted soon after it is back, and not too
// often meanwhile.
func TestRunEndsAtOnceWhateverTheServerDoes(t *testing.T) {
	t.Parallel()
	const after = 5 * time.Minute // the reflector waits before its next attempt, or for the answer
	for name, server := range map[string]*hopeless{"it refuses": {}, "it does not answer": {takes: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pods := nodepods.New(server, nodepods.Options{NodeName: "node-1", Now: time.Now, OnError: func(error) {}})
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				began := time.Now()
				if err := pods.Run(ctx); err != nil || time.Since(began) != after {
					t.Errorf("Run = %v after %v of virtual time, want nil after %v", err, time.Since(began), after)
				}
				time.Sleep(2 * time.Hour) // then the reflector has ended too
				synctest.Wait()
				for i, at := range server.asked[1:] {
					wait, most := at.Sub(server.asked[i]), 3600*time.Millisecond
					if i == 0 {
						most = time.Second
					}
					if wait < time.Second/2 || wait > most {
						t.Errorf("attempt %d waits %v, want 0.5s to %v", i+2, wait, most)
					}
				}
				if server.takes == 0 && len(server.asked) < 80 {
					t.Errorf("asked %d times in five minutes", len(server.asked))
				}
			})
		})
	}
}

// TestFaultDeadWatchIsNoticed: a watch that was dead for minutes did not differ from a live one:
// the list counted as known forever. If the server sends bookmarks, three minutes without one show
// it. If it does not, a quiet node is no fault, but a watch that cannot be opened again is.
func TestFaultDeadWatchIsNoticed(t *testing.T) {
	t.Parallel()
	for quiet, bookmarks := range map[time.Duration]bool{3 * time.Minute: true, 12 * time.Minute: false} {
		watched(t, func(t *testing.T, pods *nodepods.Pods, watchers <-chan *watch.FakeWatcher) {
			t.Helper()
			if watcher := <-watchers; bookmarks {
				watcher.Action(watch.Bookmark, bookmark())
			}
			time.Sleep(quiet)
			if err := pods.Stale(); err != nil {
				t.Errorf("after a quiet %v: %v", quiet, err)
			}
			time.Sleep(time.Second)
			if pods.Stale() == nil {
				t.Errorf("more than %v are not noticed", quiet)
			}
		})
	}
}

// The bookmark that ends a streamed list does not show that others follow. What is streamed becomes
// small as it comes.
func TestEndOfAStreamedListIsNoBookmark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods := start(t, streaming{}, nodepods.Options{LabelKeys: []string{"app"}})
		if all := pods.List(); len(all) != 1 || !maps.Equal(all[0].Labels, map[string]string{"app": "web"}) {
			t.Errorf("%v is kept, want one pod with app alone", all)
		}
		time.Sleep(12 * time.Minute)
		if err := pods.Stale(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if pods.Stale() == nil {
			t.Error("12 minutes without anything are not noticed")
		}
	})
}

// A watch that is opened anew is an answer, although a quiet node's delivers nothing for a
// minute: after an outage no pod waits for the first bookmark.
func TestNewWatchIsAnAnswer(t *testing.T) {
	t.Parallel()
	watched(t, func(t *testing.T, pods *nodepods.Pods, watchers <-chan *watch.FakeWatcher) {
		t.Helper()
		time.Sleep(time.Hour)
		if pods.Stale() == nil {
			t.Error("an hour without anything is not noticed")
		}
		(<-watchers).Stop()
		<-watchers
		synctest.Wait()
		if err := pods.Stale(); err != nil {
			t.Error(err)
		}
	})
}
