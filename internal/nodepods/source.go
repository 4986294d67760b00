package nodepods

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Client lists and watches objects of one kind, as client-go's clients do. One that cannot stream the first
// list says so by IsWatchListSemanticsUnSupported, as client-go's fake clientset does.
type Client[L runtime.Object] interface {
	// List returns the objects that the options select.
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	// Watch returns their changes.
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Source is what a reflector lists and watches: the objects that a field selector selects. Failed receives each
// error but those at the end of the program, with what failed; opened is called when a watch was answered that
// goes on where the one before ended, or where the list did.
func Source[L runtime.Object](
	client Client[L], selector string, failed func(what string, err error), opened func(),
) cache.ListerWatcher {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		options.FieldSelector = selector
		list, err := client.List(ctx, options)
		if err != nil && ctx.Err() == nil {
			failed("listing", err)
		}
		return list, err // as it is: the reflector looks at its type
	}
	watches := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = selector
		events, err := client.Watch(ctx, options)
		switch streams := options.SendInitialEvents != nil; {
		case streams && apierrors.IsInvalid(err): // it cannot stream the first list: the reflector lists
		case err != nil && ctx.Err() == nil:
			failed("watching", err)
		case err == nil && !streams:
			opened()
		}
		return events, err
	}
	return cache.ToListWatcherWithWatchListSemantics(
		&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watches}, client)
}
