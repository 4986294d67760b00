package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// auditEvent is a line of the API server's audit log, with the fields that are read.
type auditEvent struct {
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Request  json.RawMessage  `json:"requestObject"`
	Received metav1.MicroTime `json:"requestReceivedTimestamp"`
}

// act is the first sign of an eviction that reached the API server.
type act struct {
	at   time.Time
	pod  string // the name of the evicted pod
	sign string // what the request was
	code int
}

// signOf returns the sign of the agent's eviction in a request; false when there is none.
// For evictd that is the eviction request itself. The kubelet evicts without a request: it
// reports in an Event and in the pod's status, and the first of the two counts.
func (e *auditEvent) signOf(a agent) (act, bool) {
	found := act{at: e.Received.Time, pod: e.ObjectRef.Name, code: e.Response.Code}
	if e.ObjectRef.Namespace != namespace || e.Stage != "ResponseComplete" {
		return found, false
	}
	if a == byEvictd {
		found.sign = "the eviction request"
		return found, e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "eviction" && e.Verb == "create"
	}
	if !strings.HasPrefix(e.User.Username, "system:node:") {
		return found, false
	}
	if e.ObjectRef.Resource == "events" {
		found.sign = "the Event"
		var told bool
		found.pod, told = e.evictedPod()
		return found, told
	}
	found.sign = "the pod's status"
	return found, e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "status" &&
		(bytes.Contains(e.Request, []byte(`"Evicted"`)) || bytes.Contains(e.Request, []byte(`"TerminationByKubelet"`)))
}

// evictedPod returns the pod that an Event reports as evicted.
func (e *auditEvent) evictedPod() (string, bool) {
	var body struct {
		Reason   string `json:"reason"`
		Involved struct {
			Name string `json:"name"`
		} `json:"involvedObject"`
	}
	if json.Unmarshal(e.Request, &body) != nil {
		return "", false
	}
	return body.Involved.Name, body.Reason == "Evicted"
}

// auditLog follows the API server's audit log.
type auditLog struct {
	path   string
	offset int64
}

// skip skips the existing content of the log.
func (l *auditLog) skip() error {
	info, err := os.Stat(l.path)
	if err != nil {
		return fmt.Errorf("looking for the audit log: %w", err)
	}
	l.offset = info.Size()
	return nil
}

// next returns the earliest sign of an eviction in the new content of the log. The lines are
// in the order of the responses, so more than one may be a sign.
func (l *auditLog) next(a agent) (act, bool, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return act{}, false, fmt.Errorf("opening the audit log: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.NewSectionReader(file, l.offset, 1<<40))
	if err != nil {
		return act{}, false, fmt.Errorf("reading the audit log: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may still be written
	l.offset += int64(len(text))
	first, found, faults := act{}, false, error(nil)
	for line := range bytes.Lines(text) {
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			faults = errors.Join(faults, err)
			continue
		}
		if sign, is := event.signOf(a); is && (!found || sign.at.Before(first.at)) {
			first, found = sign, true
		}
	}
	if faults != nil {
		return first, found, fmt.Errorf("parsing the audit log: %w", faults)
	}
	return first, found, nil
}
