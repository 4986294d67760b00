package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/audit"
)

// auditPolicy includes the bodies of the kubelet's requests about a pod's end: by its
// metadata an eviction cannot be distinguished from any other change of the status.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, patch, update]
  resources: [{group: "", resources: [pods/eviction, pods/status, events]}, {group: events.k8s.io, resources: [events]}]
- level: Metadata
`

// act is the first sign of an eviction that reached the API server.
type act struct {
	at   time.Time
	pod  string // the name of the evicted pod
	sign string // what the request was
}

// signOf returns the sign of the agent's eviction in a request; false when there is none.
// For evictd that is the eviction request itself. The kubelet evicts without a request: it
// reports in an Event and in the pod's status, and the first of the two counts.
func signOf(e *audit.Event, a agent) (act, bool) {
	found := act{at: e.Received.Time, pod: e.ObjectRef.Name}
	if e.ObjectRef.Namespace != namespace || e.Stage != "ResponseComplete" {
		return found, false
	}
	if a == byEvictd {
		found.sign = "the eviction request"
		return found, e.Evicts()
	}
	if !strings.HasPrefix(e.User.Username, "system:node:") {
		return found, false
	}
	if e.ObjectRef.Resource == "events" {
		found.sign = "the Event"
		var told bool
		found.pod, told = evictedPod(e)
		return found, told
	}
	found.sign = "the pod's status"
	return found, e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "status" &&
		(bytes.Contains(e.Request, []byte(`"Evicted"`)) || bytes.Contains(e.Request, []byte(`"TerminationByKubelet"`)))
}

// evictedPod returns the pod that an Event reports as evicted.
func evictedPod(e *audit.Event) (string, bool) {
	var body corev1.Event
	err := json.Unmarshal(e.Request, &body)
	return body.InvolvedObject.Name, err == nil && body.Reason == "Evicted"
}

// next returns the earliest sign of an eviction in the new content of the log. The lines are
// in the order of the responses, so more than one may be a sign.
func next(log *audit.Log, a agent) (act, bool, error) {
	events, err := log.Next()
	first, found := act{}, false
	for i := range events {
		if sign, is := signOf(&events[i], a); is && (!found || sign.at.Before(first.at)) {
			first, found = sign, true
		}
	}
	return first, found, err
}
