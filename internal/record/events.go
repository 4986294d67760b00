package record

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

const (
	// eventsPerObject is how many Events of one reason one pod or node may have at
	// once; after that one every five minutes, which is client-go's own pace. The
	// key of client-go's filter lacks the reason, so that a pod that was refused 25
	// times would get no Event when it is evicted at last.
	eventsPerObject = 5
	eventsQPS       = 1. / 300
	// eventsRemembered bounds what the filters remember: pods of one node times
	// reasons.
	eventsRemembered = 512
	// flushReason marks the Event that ends the queue; it is never sent.
	flushReason = "Flush"
)

// Events writes Events through client-go's queue: [Events.Event] never waits.
type Events struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster
	sink        *endingSink
	node        string
}

// NewEvents returns a writer of Events and starts its queue; [Events.Close] ends
// it. The client should be one of its own, so that Events and evictions do not
// wait for each other, with a timeout, because client-go sends Events without a
// context.
func NewEvents(client kubernetes.Interface, nodeName, component string) *Events {
	sink := &endingSink{
		EventSink: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)},
		ended:     make(chan struct{}),
	}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{
		LRUCacheSize: eventsRemembered,
		BurstSize:    eventsPerObject,
		QPS:          eventsQPS,
		SpamKeyFunc:  spamKey,
		KeyFunc:      aggregateKey,
	})
	broadcaster.StartRecordingToSink(sink)
	return &Events{
		EventRecorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component, Host: nodeName}),
		broadcaster:   broadcaster,
		sink:          sink,
		node:          nodeName,
	}
}

// Close waits until every Event that is queued has been sent or given up, or
// until ctx is done, and ends the queue. Nothing may be written after it.
//
// client-go's own Shutdown does not do that: it hands what is queued to a
// goroutine and stops the goroutine in the same breath, so that whatever it had
// not got round to is lost (tools/record/event.go, StartEventWatcher: a select
// between the end and the next Event). The queue keeps its order and has one
// reader. So Close puts a last Event in it that the sink knows; when it comes
// out, all before it are done with.
func (e *Events) Close(ctx context.Context) error {
	e.Event(nodeReference(e.node), corev1.EventTypeNormal, flushReason, "the end of the queue")
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
	once  sync.Once
	ended chan struct{}
}

// Create sends an Event.
func (s *endingSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason == flushReason {
		s.once.Do(func() { close(s.ended) })
		return event, nil
	}
	return s.EventSink.Create(event) // as it is: client-go looks at an error's type
}

// spamKey names what is paced together: one reason of one object, by its UID. Two
// pods that had the same name one after the other are two.
func spamKey(event *corev1.Event) string {
	object := &event.InvolvedObject
	return strings.Join([]string{
		object.Kind, object.Namespace, object.Name, string(object.UID), event.Type, event.Reason,
	}, "/")
}

// aggregateKey keeps client-go from merging Events: the second part is what it
// counts different ones by, and it merges from the tenth on.
func aggregateKey(event *corev1.Event) (string, string) { return spamKey(event), "" }
