package nodepods

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// tap passes a watch on and notes that something came: event handlers see no
// bookmarks, and the reflector keeps a watch's own errors to itself.
type tap struct {
	inner  watch.Interface
	source *source
	out    chan watch.Event
	done   chan struct{}
	once   sync.Once
}

// newTap starts the tap's goroutine, which ends with the watch or with Stop.
func newTap(ctx context.Context, inner watch.Interface, source *source) *tap {
	t := &tap{inner: inner, source: source, out: make(chan watch.Event), done: make(chan struct{})}
	go t.pass(ctx)
	return t
}

// ResultChan returns the events.
func (t *tap) ResultChan() <-chan watch.Event { return t.out }

// Stop ends the watch.
func (t *tap) Stop() {
	t.once.Do(func() {
		close(t.done)
		t.inner.Stop()
	})
}

func (t *tap) pass(ctx context.Context) {
	defer close(t.out)
	for event := range t.inner.ResultChan() {
		if event.Type == watch.Error {
			t.failed(ctx, event)
		} else {
			t.source.received(event)
			if pod, is := event.Object.(*corev1.Pod); is {
				e := t.source.keys().enter(pod)
				event.Object = &e
			}
		}
		select {
		case t.out <- event:
		case <-t.done:
			return
		}
	}
}

// failed reports a watch's error event. A version that the server no longer
// keeps is not one: the reflector lists again.
func (t *tap) failed(ctx context.Context, event watch.Event) {
	err := apierrors.FromObject(event.Object)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	t.source.report(ctx, "watching", err)
}
