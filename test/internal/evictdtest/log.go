package evictdtest

import (
	"bytes"
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
