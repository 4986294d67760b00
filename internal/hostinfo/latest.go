package hostinfo

import (
	"context"
	"sync"
	"time"
)

// Latest reads in the background and returns the last answer, so that the loop does not wait. Its
// method may be called from any goroutine.
type Latest[T any] struct {
	// Read is the question, which must be bounded in time. Every is the least time between two.
	Read  func(context.Context) (T, error)
	Every time.Duration
	// Failed receives errors; a failed reading leaves no answer behind.
	Failed func(error)

	mu       sync.Mutex // guards all below
	reading  bool
	asked    time.Time
	incident string
	value    T
}

// Of returns the last answer of an incident, the zero value when there is none, and whether a new
// one is pending. It starts a reading when one is due, and does not wait.
func (l *Latest[T]) Of(incident string, now time.Time) (value T, pending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.reading && (l.asked.IsZero() || incident != l.incident || now.Sub(l.asked) >= l.Every) {
		if incident != l.incident {
			l.value = value
		}
		l.reading, l.asked, l.incident = true, now, incident
		go l.read()
	}
	if incident == l.incident {
		value = l.value
	}
	return value, l.reading
}

func (l *Latest[T]) read() {
	value, err := l.Read(context.Background()) // no caller waits for it
	if err != nil {
		var none T
		value = none
		l.Failed(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading, l.value = false, value
}
