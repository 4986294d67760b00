// Package audit follows the API server's audit log: what was requested, by which account, and what the
// answer was. A test believes it rather than evictd's own report.
package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Event is a line of the log, with the fields that are read.
type Event struct {
	Stage     string    `json:"stage"`
	Verb      string    `json:"verb"`
	ObjectRef ObjectRef `json:"objectRef"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// Request is the body of the request; nil where the audit policy leaves it out.
	Request json.RawMessage `json:"requestObject"`
	// Received is when the API server received the request.
	Received metav1.MicroTime `json:"requestReceivedTimestamp"`
}

// ObjectRef is what a request is about.
type ObjectRef struct {
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// Evicts reports whether the event is the answer to a request to evict a pod.
func (e *Event) Evicts() bool {
	return e.Stage == "ResponseComplete" && e.Verb == "create" && e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "eviction"
}

// Log is an audit log, and how far it has been read.
type Log struct {
	// Path is the file.
	Path   string
	offset int64
}

// Skip skips what the log has now.
func (l *Log) Skip() error {
	info, err := os.Stat(l.Path)
	if err != nil {
		return fmt.Errorf("looking for the audit log: %w", err)
	}
	l.offset = info.Size()
	return nil
}

// Next returns the events that were written since it was last read, in the order of the responses.
// An error names lines that are no events; the others are returned.
func (l *Log) Next() ([]Event, error) {
	file, err := os.Open(l.Path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.NewSectionReader(file, l.offset, 1<<40))
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may still be written
	l.offset += int64(len(text))
	var events []Event
	var faults error
	for line := range bytes.Lines(text) {
		var event Event
		if err := json.Unmarshal(line, &event); err != nil {
			faults = errors.Join(faults, err)
			continue
		}
		events = append(events, event)
	}
	if faults != nil {
		return events, fmt.Errorf("parsing the audit log: %w", faults)
	}
	return events, nil
}
