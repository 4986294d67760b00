package nodepods_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/rank"
)

const mi = int64(1) << 20

// memory is a resource list of memory alone.
func memory(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantity)}
}

// clock is a clock that moves when it is told to.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fullPod is a pod with everything that must not stay in memory.
func fullPod(name string) *corev1.Pod {
	priority, grace := int32(5), int64(60)
	never := corev1.ContainerRestartPolicyAlways
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: "u-" + "1", ResourceVersion: "7",
			Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{
				"kubernetes.io/config.hash":                        "h",
				"kubectl.kubernetes.io/last-applied-configuration": "SECRET-annotation",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "SECRET-manager"}},
			Finalizers:    []string{"SECRET/finalizer"},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Priority: &priority, TerminationGracePeriodSeconds: &grace,
			ServiceAccountName: "SECRET-account",
			ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "SECRET-pull"}},
			Overhead:           memory("1Mi"),
			InitContainers: []corev1.Container{{
				Name: "s", Image: "SECRET-image", RestartPolicy: &never,
				Resources: corev1.ResourceRequirements{Requests: memory("2Mi")},
			}},
			Containers: []corev1.Container{{
				Name: "a", Image: "SECRET-image", Args: []string{"SECRET-arg"},
				Env:       []corev1.EnvVar{{Name: "TOKEN", Value: "SECRET-env"}},
				Resources: corev1.ResourceRequirements{Requests: memory("4Mi")},
			}},
			Volumes: append(volumes(), corev1.Volume{
				Name: "key2", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "SECRET-name"}},
			}),
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.9.8.7", Message: "SECRET-message",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: "SECRET-ready"},
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "SECRET-why"},
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "a", ImageID: "SECRET-id", AllocatedResources: memory("3Mi"),
			}},
		},
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

// start runs a Pods against the client until the test ends.
func start(t *testing.T, client *fake.Clientset, options nodepods.Options) *nodepods.Pods {
	t.Helper()
	return startWith(t, fakeOf(client), options)
}

func startWith(t *testing.T, client nodepods.Client[*corev1.PodList], options nodepods.Options) *nodepods.Pods {
	t.Helper()
	if options.OnError == nil {
		options.OnError = func(error) {}
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
	return pods
}

// watched starts the pods of a node that lists one, by a clock of the test's, and returns each watch when it
// is opened.
func watched(t *testing.T) (pods *nodepods.Pods, now *clock, watchers <-chan *watch.FakeWatcher) {
	t.Helper()
	client, opened := fake.NewClientset(fullPod("web")), make(chan *watch.FakeWatcher, 100)
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		watcher := watch.NewFake()
		opened <- watcher
		return true, watcher, nil
	})
	now = &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	pods = start(t, client, nodepods.Options{NodeName: "node-1", Now: now.Now})
	eventually(t, "first list", pods.Synced)
	return pods, now, opened
}

// arrive adds a second pod and waits for it, while the clock stands: an event is taken only by a watch that is open.
func arrive(t *testing.T, pods *nodepods.Pods, watcher *watch.FakeWatcher) {
	t.Helper()
	second := fullPod("second")
	second.UID = "u-2"
	watcher.Add(second)
	eventually(t, "the second pod", func() bool { return len(pods.List()) == 2 })
}

func bookmark() *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}} }

// eventually waits for a condition that other goroutines bring about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// named returns the pod of that name.
func named(t *testing.T, pods *nodepods.Pods, name string) *nodepods.Pod {
	t.Helper()
	for _, pod := range pods.List() {
		if pod.Name == name {
			return pod
		}
	}
	t.Fatalf("%s is not there", name)
	return nil
}

func TestPodsKeepWhatIsReadAndNothingElse(t *testing.T) {
	t.Parallel()
	full := fullPod("web")
	client := fake.NewClientset(full)
	pods := start(t, client, nodepods.Options{NodeName: "node-1", Now: time.Now, LabelKeys: []string{"app"}})
	eventually(t, "first list", pods.Synced)
	kept := named(t, pods, "web")
	if text := fmt.Sprintf("%+v", *kept); strings.Contains(text, "SECRET") || strings.Contains(text, "10.9.8.7") ||
		strings.Contains(text, "tls-of-the-bank") {
		t.Errorf("the store keeps what is not read:\n%s", text)
	}
	want := nodepods.FromAPI(full)
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("the store holds another pod (-want +got):\n%s", diff)
	}
	if got := kept.Facts(rank.Memory).Request; got != 6*mi {
		t.Errorf("request = %d, want %d: 3Mi allocated, 2Mi sidecar, 1Mi overhead", got, 6*mi)
	}
	if kept.Priority != 5 || kept.GraceSeconds != 60 || !kept.Ready || !kept.KubeletEvictedAt.IsZero() || !kept.Started || len(kept.DiskVolumes) != 3 {
		t.Errorf("the pod is %+v", *kept)
	}
}

func TestPodsAreListedForOneNodeOnce(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	var mu sync.Mutex
	var asked []string
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if l, ok := action.(clienttesting.ListAction); ok {
			asked = append(asked, l.GetListRestrictions().Fields.String())
		}
		return false, nil, nil
	})
	pods := start(t, client, nodepods.Options{NodeName: "node-1", Now: time.Now})
	eventually(t, "first list", pods.Synced)
	for range 100 {
		pods.List()
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 1 || asked[0] != "spec.nodeName=node-1" {
		t.Errorf("lists sent with selectors %q, want one with spec.nodeName=node-1", asked)
	}
}

func TestPodsFollowTheWatch(t *testing.T) {
	t.Parallel()
	pods, now, watchers := watched(t)
	watcher := <-watchers
	if got := len(pods.List()); got != 1 {
		t.Fatalf("%d pods, want 1", got)
	}
	arrive(t, pods, watcher)
	now.step(time.Minute)
	if age, known := pods.Age(); !known || age != time.Minute {
		t.Errorf("age = %s, %t; want 1m0s", age, known)
	}
	watcher.Action(watch.Bookmark, bookmark())
	eventually(t, "a bookmark counts as delivered", func() bool { age, _ := pods.Age(); return age == 0 })
	watcher.Delete(fullPod("web"))
	eventually(t, "the pod is gone", func() bool { return len(pods.List()) == 1 })
}

func TestPodsReportErrors(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	var failing sync.Once
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		var err error
		failing.Do(func() { err = errors.New("list broke") })
		return err != nil, nil, err
	})
	var first sync.Once
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		var err error
		first.Do(func() { err = apierrors.NewInternalError(errors.New("watch broke")) })
		return err != nil, nil, err
	})
	reported := make(chan error, 100)
	pods := start(t, client, nodepods.Options{
		NodeName: "node-1", Now: time.Now, OnError: func(err error) { reported <- err },
	})
	for _, want := range []string{"list broke", "watch broke"} {
		select {
		case err := <-reported:
			if !strings.Contains(err.Error(), want) {
				t.Errorf("reported %q, want one with %q", err, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%q was not reported", want)
		}
	}
	eventually(t, "recovered", pods.Synced)
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
type hopeless struct{ takes time.Duration }

func (h hopeless) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	time.Sleep(h.takes)
	return nil, syscall.ECONNREFUSED
}

func (h hopeless) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	time.Sleep(h.takes)
	return nil, syscall.ECONNREFUSED
}

// A process that was told to end must not wait for the watch, or the kubelet kills
// it in the middle of whatever else it had to finish.
func TestRunEndsAtOnceWhateverTheServerDoes(t *testing.T) {
	t.Parallel()
	const after = 10 * time.Second // the reflector waits before its next attempt, or for the answer
	for name, server := range map[string]hopeless{"it refuses": {}, "it does not answer": {time.Hour}} {
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
			})
		})
	}
}
