package nodepods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
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
)

// Client lists and watches pods in all namespaces. Client-go's clients of pods do so. One that cannot
// stream the first list says so by IsWatchListSemanticsUnSupported, as client-go's fake clientset does.
type Client interface {
	// List returns the pods that the options select.
	List(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error)
	// Watch returns their changes.
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Options are the settings of [Pods]. Only the last three may be missing.
type Options struct {
	// NodeName is the node whose pods are watched.
	NodeName string
	// Now is the clock.
	Now func() time.Time
	// LabelKeys are the keys of the labels that are needed: a pod may have more labels than evictd
	// has memory. Nil keeps all labels. See [Pods.KeepLabels].
	LabelKeys []string
	// OnError receives the error of every list or watch that failed or broke; nil ignores them. It
	// is called on the watch's goroutine and must not block. The reflector retries with a back-off.
	OnError func(error)
	// OnOOMKilled receives, once, each container that the kernel killed after the first list, as
	// far as a pod's status keeps it; nil ignores them. It is called as OnError is.
	OnOOMKilled func(*Pod, OOMKilled)
}

// Pods are the pods of one node, as far as the API server has reported them.
type Pods struct {
	reflector *cache.Reflector
	again     atomic.Pointer[context.CancelFunc] // ends the watch, which then begins with a list; nil before Run
	store     store
	now       func() time.Time
	// delivered is when the API server last delivered anything; nil before.
	delivered atomic.Pointer[time.Time]
	// opened is when it last answered a new watch; bookmarked says that it sends bookmarks.
	// See stale.go.
	opened     atomic.Pointer[time.Time]
	bookmarked atomic.Bool
}

// backoff is how long a request that failed waits before it is sent again. Client-go's own back-off
// grows up to half a minute and twice that: so long after an outage evictd would still decide by
// the pods from before it. The jitter keeps the agents of many nodes from returning at the same
// time.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 4, Cap: 6 * time.Second}
}

// New returns the pods of a node. It sends nothing; see [Pods.Run].
func New(client Client, options Options) *Pods {
	p := &Pods{now: options.Now, store: store{killed: options.OnOOMKilled, keys: keysOf(options.LabelKeys)}}
	onError := options.OnError
	if onError == nil {
		onError = func(error) {}
	}
	source := &source{
		client:    client,
		selector:  selector(options.NodeName),
		delivered: p.touch,
		opened:    p.open,
		received:  p.receive,
		keys:      p.store.labelKeys,
		onError:   onError,
	}
	p.reflector = cache.NewReflectorWithOptions(source.listWatcher(), &entry{}, &p.store, cache.ReflectorOptions{
		Name: "nodepods", Backoff: backoff(),
	})
	return p
}

// Run watches until ctx is done, and returns at once then. It may be called once.
//
// The reflector is left to end by itself: between two attempts it may wait without looking at
// its context (tools/cache/reflector.go, watchList).
func (p *Pods) Run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.follow(klog.NewContext(ctx, klog.Logger{})) // the source has reported what failed; the reflector would log it once more
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
	}
	if ctx.Err() == nil {
		return errors.New("watching the node's pods: the reflector stopped by itself")
	}
	return nil
}

// follow runs the reflector until the context ends, or the reflector by itself.
func (p *Pods) follow(ctx context.Context) {
	for ctx.Err() == nil {
		watching, again := context.WithCancel(ctx)
		p.again.Store(&again)
		p.reflector.RunWithContext(watching)
		byItself := watching.Err() == nil
		again()
		if byItself {
			return
		}
	}
}

// KeepLabels changes which labels are kept. Where there is a new key, the pods are listed anew, and are
// not synced until they are.
func (p *Pods) KeepLabels(keys []string) {
	if !p.store.keepLabels(keys) {
		return
	}
	if again := p.again.Load(); again != nil {
		(*again)()
	}
}

// Synced reports whether the first list is in the store. Before that [Pods.List]
// is not the node's pods.
func (p *Pods) Synced() bool { return p.store.hasSynced() }

// List returns the node's pods in no particular order. They are shared and must not be changed.
func (p *Pods) List() []*Pod { return p.store.list() }

// Get returns the pod of that name, or false when the node has none. The pod is shared and must not
// be changed.
func (p *Pods) Get(namespace, name string) (*Pod, bool) { return p.store.get(namespace, name) }

// Listed reports whether a list has the pod with a UID.
func Listed(pods []*Pod, uid string) bool {
	return slices.ContainsFunc(pods, func(one *Pod) bool { return one.UID == uid })
}

// List requests the pods of a node from the API server once. The error is the client's own.
func List(ctx context.Context, client Client, node string) ([]*Pod, error) {
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: selector(node)})
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller knows what it asked for
	}
	pods := make([]*Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, FromAPI(&list.Items[i]))
	}
	return pods, nil
}

func selector(node string) string { return fields.OneTermEqualSelector("spec.nodeName", node).String() }

// Age returns how long ago the API server last delivered anything, bookmarks
// included, and false when it never has. A quiet node is no fault: bookmarks come
// about once a minute from servers that send them, and not at all from others.
func (p *Pods) Age() (time.Duration, bool) {
	last := p.delivered.Load()
	if last == nil {
		return 0, false
	}
	return p.now().Sub(*last), true
}

func (p *Pods) touch() {
	now := p.now()
	p.delivered.Store(&now)
}

// source lists and watches one node's pods.
type source struct {
	client    Client
	selector  string
	delivered func()            // a list came
	opened    func()            // a watch was answered
	received  func(watch.Event) // an event of it came
	keys      func() *labelKeys // of the labels that are kept
	onError   func(error)
}

func (s *source) listWatcher() cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  s.list,
		WatchFuncWithContext: s.watch,
	}, s.client)
}

func (s *source) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.FieldSelector = s.selector
	list, err := s.client.List(ctx, options)
	if err != nil {
		s.report(ctx, "listing", err)
		return nil, err //nolint:wrapcheck // as it is: the reflector looks at its type
	}
	s.delivered()
	kept := &entries{ListMeta: list.ListMeta, Items: make([]entry, 0, len(list.Items))}
	for i, keys := 0, s.keys(); i < len(list.Items); i++ {
		kept.Items = append(kept.Items, keys.enter(&list.Items[i]))
	}
	return kept, nil
}

func (s *source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = s.selector
	inner, err := s.client.Watch(ctx, options)
	if err != nil {
		// A server that cannot stream the first list calls the request invalid, and
		// the reflector falls back to a list: nothing is wrong.
		if options.SendInitialEvents == nil || !apierrors.IsInvalid(err) {
			s.report(ctx, "watching", err)
		}
		return nil, err //nolint:wrapcheck // as it is: the reflector looks at its type
	}
	s.opened()
	return newTap(ctx, inner, s), nil
}

// report reports an error, unless it is the end of the program.
func (s *source) report(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.onError(fmt.Errorf("%s the node's pods: %w", what, err))
	}
}
