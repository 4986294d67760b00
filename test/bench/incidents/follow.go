package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// askAgain is how soon a list or watch that failed is tried again. Client-go's own informers wait for up to
// a minute, and would miss a pod that ends after the API server was away.
const askAgain = 200 * time.Millisecond

// followed hands each state of the objects of one kind to a function, as a store of client-go's reflector.
type followed struct {
	see    func(object any, removed bool)
	listed chan struct{} // closed when the first list was seen

	mu    sync.Mutex
	known map[types.UID]any
}

func newFollowed(see func(object any, removed bool)) *followed {
	return &followed{see: see, listed: make(chan struct{}), known: map[types.UID]any{}}
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
func (f *followed) Add(object any) error { return f.put(object) }

// Update takes an object that has changed.
func (f *followed) Update(object any) error { return f.put(object) }

func (f *followed) put(object any) error {
	uid, err := uidOf(object)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[uid] = object
	f.see(object, false)
	return nil
}

// Delete takes the last state of an object that is gone.
func (f *followed) Delete(object any) error {
	uid, err := uidOf(object)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, uid)
	f.see(object, true)
	return nil
}

// Replace takes a list of all objects. Those that are missing went while nothing was seen.
func (f *followed) Replace(objects []any, _ string) error {
	there := map[types.UID]bool{}
	for _, object := range objects {
		uid, err := uidOf(object)
		if err != nil {
			return err
		}
		there[uid] = true
		if err := f.put(object); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, last := range f.known {
		if !there[uid] {
			delete(f.known, uid)
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

// Resync does nothing: there is no period.
func (f *followed) Resync() error { return nil }

func uidOf(object any) (types.UID, error) {
	is, err := meta.Accessor(object)
	if err != nil {
		return "", fmt.Errorf("following an object: %w", err)
	}
	return is.GetUID(), nil
}
