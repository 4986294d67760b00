package nodepods

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options are the settings of [Pods]. Only OnError may be missing.
type Options struct {
	// NodeName is the node whose pods are watched.
	NodeName string
	// Now is the clock.
	Now func() time.Time
	// OnError is told of every list or watch that failed or broke; nil ignores
	// them. It is called on the watch's goroutine and must not block. The informer
	// tries again by itself, with a back-off.
	OnError func(error)
}

// Pods are the pods of one node, as far as the API server has told.
type Pods struct {
	informer cache.SharedIndexInformer
	now      func() time.Time
	// delivered is when the API server last delivered anything; nil before.
	delivered atomic.Pointer[time.Time]
	// opened is when it last answered a new watch; bookmarked says that it sends bookmarks.
	// See stale.go.
	opened     atomic.Pointer[time.Time]
	bookmarked atomic.Bool
}

// New returns the pods of a node. It sends nothing; see [Pods.Run].
func New(client kubernetes.Interface, options Options) (*Pods, error) {
	p := &Pods{now: options.Now}
	onError := options.OnError
	if onError == nil {
		onError = func(error) {}
	}
	source := &source{
		client:    client,
		selector:  fields.OneTermEqualSelector("spec.nodeName", options.NodeName).String(),
		delivered: p.touch,
		opened:    p.open,
		heard:     p.hear,
		onError:   onError,
	}
	p.informer = cache.NewSharedIndexInformerWithOptions(
		source.listWatcher(), &corev1.Pod{}, cache.SharedIndexInformerOptions{ResyncPeriod: 0})
	if err := p.informer.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("setting the transform: %w", err)
	}
	// The source reports every failure, also those that the reflector keeps from
	// this handler (a watch that ended with an error, a refused connection).
	if err := p.informer.SetWatchErrorHandlerWithContext(
		func(context.Context, *cache.Reflector, error) {}); err != nil {
		return nil, fmt.Errorf("setting the watch error handler: %w", err)
	}
	return p, nil
}

// Run watches until ctx is done, and returns at once then. It may be called once.
//
// The informer is left to end by itself: between two attempts client-go's reflector
// waits up to a minute without looking at its context (tools/cache/reflector.go,
// watchList), which is longer than the kubelet gives a pod to end.
func (p *Pods) Run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.informer.RunWithContext(ctx)
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
	}
	if ctx.Err() == nil {
		return errors.New("watching the node's pods: the informer stopped by itself")
	}
	return nil
}

// Synced reports whether the first list is in the store. Before that [Pods.List]
// is not the node's pods.
func (p *Pods) Synced() bool { return p.informer.HasSynced() }

// List returns the node's pods in no particular order. They are shared: nobody
// may change them.
func (p *Pods) List() []*corev1.Pod {
	items := p.informer.GetStore().List()
	pods := make([]*corev1.Pod, 0, len(items))
	for _, item := range items {
		if pod, ok := item.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Get returns the pod of that name, or false when the node has none. The pod is
// shared: nobody may change it.
func (p *Pods) Get(namespace, name string) (*corev1.Pod, bool) {
	item, exists, err := p.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !exists {
		return nil, false
	}
	pod, ok := item.(*corev1.Pod)
	return pod, ok
}

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
	client    kubernetes.Interface
	selector  string
	delivered func()            // a list came
	opened    func()            // a watch was answered
	heard     func(watch.Event) // an event of it came
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
	var list *corev1.PodList
	err := s.persist(ctx, "listing", func() (err error) {
		list, err = s.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		return err //nolint:wrapcheck // as it is: the reflector looks at its type
	})
	if err != nil {
		s.report(ctx, "listing", err)
		return nil, err
	}
	s.delivered()
	return list, nil
}

func (s *source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = s.selector
	var inner watch.Interface
	err := s.persist(ctx, "watching", func() (err error) {
		inner, err = s.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
		return err //nolint:wrapcheck // as it is: the reflector looks at its type
	})
	if err != nil {
		// A server that cannot stream the first list calls the request invalid, and
		// the reflector falls back to a list: nothing is wrong.
		if options.SendInitialEvents == nil || !apierrors.IsInvalid(err) {
			s.report(ctx, "watching", err)
		}
		return nil, err
	}
	s.opened()
	return newTap(ctx, inner, s), nil
}

// report tells of an error, unless it is the end of the program.
func (s *source) report(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.onError(fmt.Errorf("%s the node's pods: %w", what, err))
	}
}
