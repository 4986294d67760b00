package record

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

const (
	// eventsPerObject is how many Events of one reason one object may have at once; after that one
	// every five minutes, which is client-go's own pace. The key of client-go's filter lacks the
	// reason, so that a pod that was refused 25 times would get no Event when it is finally evicted.
	eventsPerObject = 5
	eventsQPS       = 1. / 300
	// eventsRemembered bounds what the filters remember: pods of one node times reasons.
	eventsRemembered = 1024
	// lastEvents is how long the end waits for what is queued.
	lastEvents = time.Second
)

// Events writes Events through client-go's queue: it never waits for the API server.
type Events struct {
	record.EventRecorder
	record.EventBroadcaster
}

// NewEvents returns a writer of Events and starts its queue; [Events.Close] ends it. What sends the
// Events should have a client of its own, so that Events and evictions do not wait for each other,
// with a timeout, because client-go sends Events without a context. One that the API server refuses is lost, as
// those of the kubelet are.
func NewEvents(send record.EventSink, nodeName string) *Events {
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{
		LRUCacheSize: eventsRemembered, BurstSize: eventsPerObject, QPS: eventsQPS, SpamKeyFunc: spamKey,
		// The second part is what client-go counts different Events by, and merges from the tenth on.
		KeyFunc: func(event *corev1.Event) (string, string) { return spamKey(event), "" },
	})
	// Every object is an ObjectReference, which has its kind and version. So no scheme is needed.
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "evictd", Host: nodeName})
	broadcaster.StartRecordingToSink(send)
	return &Events{recorder, broadcaster}
}

// Close ends the queue after a second, in which what is queued is sent: client-go's own end loses it
// (tools/record/event.go, StartEventWatcher: a select between the end and the next Event).
func (e *Events) Close() {
	<-time.NewTimer(lastEvents).C
	e.Shutdown()
}

// spamKey names what is paced together, and merged by no other: one reason of one object, by its UID. On the
// node the reasons of pods are those of evictions, each of another pod, which limits pace.
func spamKey(event *corev1.Event) string {
	object, pod := &event.InvolvedObject, ""
	if _, own := eventTable()[event.Reason]; object.Kind == "Node" && !own {
		pod = event.Message
	}
	return strings.Join([]string{object.Kind, object.Namespace, object.Name, string(object.UID), event.Type, event.Reason, pod}, "/")
}
