package record

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

const (
	// eventsPerObject is how many Events of one reason one object may have at once; after that one
	// every five minutes, which is client-go's own pace. The key of client-go's filter lacks the
	// reason, so that a pod that was refused 25 times would get no Event when it is finally evicted.
	eventsPerObject = 5
	eventsQPS       = 1. / 300
	// eventsRemembered bounds what the filters remember: pods of one node and their
	// owners times reasons.
	eventsRemembered = 1024
	// eventPatience is how old an Event may be for it to be sent again after the API server answered
	// 429 or 5xx. It limits the age and not the tries, so that a namespace in which every Event fails
	// delays the others once and not once for each of its Events.
	eventPatience = 2 * time.Minute
	// victimAnnotation is on an owner's Event and holds the UID of the pod that is evicted.
	victimAnnotation = "evictd.dev/pod-uid"
	// flushReason marks the Event that ends the queue; it is never sent.
	flushReason = "Flush"
)

// Events writes Events through client-go's queue: it never waits for the API server.
type Events struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster
	sink        *endingSink
}

// NewEvents returns a writer of Events and starts its queue; [Events.Close] ends it. What sends the
// Events should have a client of its own, so that Events and evictions do not wait for each other,
// with a timeout, because client-go sends Events without a context. Now is the clock.
func NewEvents(send record.EventSink, nodeName, component string, now func() time.Time) *Events {
	sink := &endingSink{EventSink: send, now: now, ended: make(chan struct{})}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{
		LRUCacheSize: eventsRemembered, BurstSize: eventsPerObject, QPS: eventsQPS, SpamKeyFunc: spamKey,
		// The second part is what client-go counts different Events by, and merges from the tenth on.
		KeyFunc: func(event *corev1.Event) (string, string) { return spamKey(event), "" },
	})
	broadcaster.StartRecordingToSink(sink)
	// Every object is an ObjectReference, which has its kind and version. So no scheme is needed.
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component, Host: nodeName})
	return &Events{recorder, broadcaster, sink}
}

// Close waits until every Event that is queued has been sent or given up, or until ctx is done, and
// ends the queue. Nothing may be written after it.
//
// client-go's own Shutdown loses what is still queued (tools/record/event.go, StartEventWatcher: a
// select between the end and the next Event). The queue keeps its order and has one reader: Close puts
// a last Event in it that the sink knows, and when it comes out, all before it are done with.
func (e *Events) Close(ctx context.Context) error {
	e.Event(&corev1.ObjectReference{}, corev1.EventTypeNormal, flushReason, "the end of the queue")
	defer e.broadcaster.Shutdown()
	select {
	case <-e.sink.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sending the last events, some of which are lost: %w", context.Cause(ctx))
	}
}

// endingSink sends Events and notices the last one.
type endingSink struct {
	record.EventSink
	now   func() time.Time
	once  sync.Once
	ended chan struct{}
}

// Create sends an Event.
func (s *endingSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason == flushReason {
		s.once.Do(func() { close(s.ended) })
		return event, nil
	}
	sent, err := s.EventSink.Create(event)
	return sent, s.again(event, err)
}

// Patch counts a repeated Event.
func (s *endingSink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	sent, err := s.EventSink.Patch(event, patch)
	return sent, s.again(event, err)
}

// again returns an error after which client-go tries again, every ten seconds and twelve times at
// most, when the API server is overloaded and the Event is young. Client-go itself takes every response
// for final, by the type of the error: any other is tried again (tools/record/event.go, recordEvent).
func (s *endingSink) again(event *corev1.Event, err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || s.now().Sub(event.LastTimestamp.Time) > eventPatience {
		return err
	}
	if code := answer.Status().Code; code != http.StatusTooManyRequests && code < http.StatusInternalServerError {
		return err
	}
	return fmt.Errorf("sending an event: %w", err)
}

// spamKey names what is paced together, and merged by no other: one reason of one object, by its UID.
// An owner's Events about pods that go are paced by pod: it may lose all its pods within a minute, each
// once, and the configuration's limits bound how many. Refusals of its pods go on, and are paced
// together.
func spamKey(event *corev1.Event) string {
	object := &event.InvolvedObject
	return strings.Join([]string{
		object.Kind, object.Namespace, object.Name, string(object.UID), event.Type, event.Reason, event.Annotations[victimAnnotation],
	}, "/")
}
