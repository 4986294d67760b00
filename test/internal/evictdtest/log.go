package evictdtest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// Log is a log that grows while it is read.
type Log struct {
	mu      sync.Mutex
	content bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.Write(p)
}

// String returns all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.String()
}

// Has reports whether the text is in the log.
func (l *Log) Has(text string) bool { return strings.Contains(l.String(), text) }

// Messages returns the messages of all lines, in order.
func (l *Log) Messages() []string {
	var all []string
	for line := range strings.Lines(l.String()) {
		var fields struct {
			Message string `json:"msg"`
		}
		if json.Unmarshal([]byte(line), &fields) == nil {
			all = append(all, fields.Message)
		}
	}
	return all
}
