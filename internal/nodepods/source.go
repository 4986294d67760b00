package nodepods

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Client lists and watches objects of one kind, as client-go's clients do. One that cannot stream the first
// list says so by IsWatchListSemanticsUnSupported, as client-go's fake clientset does.
type Client[L runtime.Object] interface {
	// List returns the objects that the options select.
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	// Watch returns their changes.
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Follow keeps the objects of a kind that a field selector selects in a store until the context ends, and returns at
// once then: between two attempts the reflector may wait without looking at its context (tools/cache/reflector.go,
// watchList). Failed receives each error but those at the end; opened is called when a watch was answered that goes on
// where the one before ended, or where the list did.
func Follow[L runtime.Object](
	ctx context.Context, client Client[L], selector string, kind runtime.Object, store cache.ReflectorStore,
	failed func(error), opened func(),
) {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		options.FieldSelector = selector
		list, err := client.List(ctx, options)
		if err != nil && ctx.Err() == nil {
			failed(fmt.Errorf("listing: %w", err))
		}
		return list, err // as it is: the reflector looks at its type
	}
	watches := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = selector
		events, err := client.Watch(ctx, options)
		switch streams := options.SendInitialEvents != nil; {
		case streams && apierrors.IsInvalid(err): // it cannot stream the first list: the reflector lists
		case err != nil && ctx.Err() == nil:
			failed(fmt.Errorf("watching: %w", err))
		case err == nil && !streams:
			opened()
		}
		return events, err
	}
	source := cache.ToListWatcherWithWatchListSemantics(
		&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watches}, client)
	// A request that failed is sent again after 3.6 s at most. Client-go's own back-off grows up to half a minute and
	// twice that: so long after an outage evictd would still decide by what was before it. The jitter keeps the agents
	// of many nodes from returning at the same time.
	backoff := &wait.Backoff{Duration: time.Second / 2, Factor: 2, Jitter: 0.2, Steps: 4, Cap: 3 * time.Second}
	reflector := cache.NewReflectorWithOptions(source, kind, store, cache.ReflectorOptions{Backoff: backoff})
	go reflector.RunWithContext(klog.NewContext(ctx, klog.Logger{})) // it would log once more what failed
	<-ctx.Done()
}
