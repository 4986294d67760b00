package acting

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/wording"
)

const (
	// StopName is the name of the ConfigMap that stops all agents while it exists.
	StopName = "evictd-stop"
	// StopReason is the key of its data that says why.
	StopReason = "reason"
	// reasonLimit is how many bytes of that are quoted.
	reasonLimit = 200
)

// ConfigMaps lists and watches the ConfigMaps of a namespace, as client-go's client does.
type ConfigMaps interface {
	// List returns those that the options select.
	List(ctx context.Context, options metav1.ListOptions) (*corev1.ConfigMapList, error)
	// Watch returns their changes.
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// stop follows the ConfigMap that stops all agents, by a watch on that one name.
type stop struct {
	client    ConfigMaps
	key       string // namespace/name
	now       func() time.Time
	changed   func()
	reflector *cache.Reflector

	mu      sync.Mutex // guards all below
	answers answers
	exists  bool
	reason  string // as the ConfigMap has it
}

// newStop returns a stop that calls changed, on any goroutine, after each change of what is known.
func newStop(options *Options, changed func()) *stop {
	s := &stop{client: options.ConfigMaps, key: options.Namespace + "/" + StopName, now: options.Now, changed: changed}
	lists := cache.ToListWatcherWithWatchListSemantics(
		&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}, options.ConfigMaps)
	s.reflector = cache.NewReflectorWithOptions(lists, &corev1.ConfigMap{}, stopStore{s}, cache.ReflectorOptions{
		Name: StopName, Backoff: stopBackoff(),
	})
	return s
}

// stopBackoff is how long a request that failed waits before it is sent again: at most 3.6 s, so
// that a stop is in force within five seconds on a node that reaches the API server again.
func stopBackoff() *wait.Backoff {
	const steps = 4
	return &wait.Backoff{Duration: time.Second / 2, Factor: 2, Jitter: 0.2, Steps: steps, Cap: 3 * time.Second}
}

// run watches until the context ends, and returns at once then.
func (s *stop) run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() { // between two attempts it may wait without looking at its context
		defer close(ended)
		s.reflector.RunWithContext(klog.NewContext(ctx, klog.Logger{})) // what fails is told as a State
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
	}
	if ctx.Err() == nil {
		return fmt.Errorf("watching ConfigMap %s: the reflector stopped by itself", s.key)
	}
	return nil
}

// state returns what follows for an agent from the ConfigMap alone.
func (s *stop) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.answers.known(s.now()):
		return s.unknown()
	case s.exists && s.reason == "":
		return State{Reason: Stopped, Why: "ConfigMap " + s.key + " stops it, and gives no reason", Do: s.resume()}
	case s.exists:
		return State{Reason: Stopped, Why: "ConfigMap " + s.key + " stops it: " + quoted(s.reason), Do: s.resume()}
	default:
		return State{}
	}
}

func (s *stop) resume() string { return "delete ConfigMap " + s.key + " to let it act again" }

// unknown is the state while it is not known whether the ConfigMap exists.
func (s *stop) unknown() State {
	unknown := State{Reason: StopUnknown, Why: "it is not known yet whether ConfigMap " + s.key + " exists"}
	switch fault := s.answers.fault; {
	case fault == nil:
	case apierrors.IsForbidden(fault):
		unknown.Why = "it is not known whether ConfigMap " + s.key + " exists, which the account may not watch"
		unknown.Do = "apply the Role and the RoleBinding evictd of deploy/daemonset.yaml"
	default:
		unknown.Why = "it is not known whether ConfigMap " + s.key + " exists: " + wording.OneLine(fault.Error())
		unknown.Do = "check the connection to the API server"
	}
	return unknown
}

// quoted returns the beginning of a text, in one line and in quotation marks.
func quoted(text string) string {
	if text = wording.OneLine(text); len(text) > reasonLimit {
		text = strings.ToValidUTF8(text[:reasonLimit], "") + "..."
	}
	return `"` + text + `"`
}

func (s *stop) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.FieldSelector = onlyStop()
	list, err := s.client.List(ctx, options)
	if err != nil {
		s.failed(ctx, err)
		return nil, err //nolint:wrapcheck // as it is: the reflector looks at its type
	}
	return list, nil
}

func (s *stop) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = onlyStop()
	changes, err := s.client.Watch(ctx, options)
	switch streams := options.SendInitialEvents != nil; {
	case err != nil && streams && apierrors.IsInvalid(err): // it cannot stream the first list: the reflector lists
		return nil, err //nolint:wrapcheck // as it is: the reflector looks at its type
	case err != nil:
		s.failed(ctx, err)
		return nil, err //nolint:wrapcheck // as it is: the reflector looks at its type
	case !streams:
		s.resumed()
	}
	return changes, nil
}

// onlyStop selects the one name, which the Role allows.
func onlyStop() string { return fields.OneTermEqualSelector("metadata.name", StopName).String() }

// failed notes a request that failed, unless that is the end of the program.
func (s *stop) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	s.answers.fail(err, s.now())
	s.mu.Unlock()
	s.changed()
}

// resumed notes a watch that goes on where the one before ended, or where the list did.
func (s *stop) resumed() {
	s.mu.Lock()
	s.answers.tell()
	s.mu.Unlock()
	s.changed()
}

// set notes whether the ConfigMap exists; nil says that it does not.
func (s *stop) set(object any) error {
	found, is := object.(*corev1.ConfigMap)
	if object != nil && !is {
		return fmt.Errorf("following ConfigMap %s: the API server sent a %T", s.key, object)
	}
	s.mu.Lock()
	s.answers.tell()
	s.exists, s.reason = found != nil, ""
	if found != nil {
		s.reason = found.Data[StopReason]
	}
	s.mu.Unlock()
	s.changed()
	return nil
}

// stopStore is what the reflector fills ([cache.ReflectorStore]).
type stopStore struct{ *stop }

// Add takes the ConfigMap when it is made.
func (s stopStore) Add(object any) error { return s.set(object) }

// Update takes it when it has changed.
func (s stopStore) Update(object any) error { return s.set(object) }

// Delete notes that it is gone.
func (s stopStore) Delete(any) error { return s.set(nil) }

// Replace takes a list, which has one entry or none.
func (s stopStore) Replace(objects []any, _ string) error {
	switch len(objects) {
	case 0:
		return s.set(nil)
	case 1:
		return s.set(objects[0])
	default:
		return errors.New("following ConfigMap " + s.key + ": the API server sent several")
	}
}

// Resync does nothing: nothing is derived.
func (stopStore) Resync() error { return nil }
