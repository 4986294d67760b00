package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// askAgain is how soon a list or watch that failed is tried again. Client-go's own informers wait for up to
// a minute, and would miss a pod that ends after the API server was away.
const askAgain = 200 * time.Millisecond

// followed is a store of client-go's reflector that hands each state of the objects of one kind to a function.
type followed struct {
	cache.Store // the last states, by UID

	see    func(object any, removed bool)
	listed chan struct{} // closed when the first list was seen
}

func newFollowed(see func(object any, removed bool)) *followed {
	return &followed{Store: cache.NewStore(uidOf), see: see, listed: make(chan struct{})}
}

// follow hands the objects of a kind in a namespace to their store until ctx is done.
func follow(ctx context.Context, client rest.Interface, resource, namespace string, kind runtime.Object, to *followed) {
	lists := cache.NewListWatchFromClient(client, resource, namespace, fields.Everything())
	reflector := cache.NewReflectorWithOptions(lists, kind, to, cache.ReflectorOptions{
		Name: resource, Backoff: &wait.Backoff{Duration: askAgain, Factor: 1},
	})
	go reflector.RunWithContext(ctx)
}

// Add takes an object that is new.
func (f *followed) Add(object any) error { return f.seen(object, false, f.Store.Add(object)) }

// Update takes an object that has changed.
func (f *followed) Update(object any) error { return f.seen(object, false, f.Store.Update(object)) }

// Delete takes the last state of an object that is gone.
func (f *followed) Delete(object any) error { return f.seen(object, true, f.Store.Delete(object)) }

func (f *followed) seen(object any, removed bool, err error) error {
	if err == nil {
		f.see(object, removed)
	}
	return err
}

// Replace takes a list of all objects. Those that are missing went while nothing was seen.
func (f *followed) Replace(objects []any, version string) error {
	before := f.List()
	if err := f.Store.Replace(objects, version); err != nil {
		return err
	}
	for _, object := range objects {
		f.see(object, false)
	}
	for _, last := range before {
		if _, there, _ := f.Get(last); !there { // it has a UID
			f.see(last, true)
		}
	}
	select {
	case <-f.listed:
	default:
		close(f.listed)
	}
	return nil
}

func uidOf(object any) (string, error) {
	is, err := meta.Accessor(object)
	if err != nil {
		return "", fmt.Errorf("following an object: %w", err)
	}
	return string(is.GetUID()), nil
}
