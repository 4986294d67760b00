package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Patience is how long a request waits for its state to be written, and how long a write may
// take before it counts as slow. Pressure does not wait for a disk.
const Patience = 50 * time.Millisecond

// Failure says what went wrong with a write.
type Failure string

// The failures.
const (
	// WriteFailed: the file could not be written; the one before is still there.
	WriteFailed Failure = "WriteFailed"
	// WriteSlow: the write took, or takes, longer than [Patience].
	WriteSlow Failure = "WriteSlow"
)

// Failures returns every failure, so that metrics can be created at start.
func Failures() []Failure { return []Failure{WriteFailed, WriteSlow} }

// Options are a store's.
type Options struct {
	// Dir is the directory of the file. It must be there.
	Dir string
	// Identity is this boot.
	Identity Identity
	// Now is the clock.
	Now func() time.Time
	// OnFailure is called with each write that failed, or was slow; then the error is nil. It is
	// called from a goroutine of the store's.
	OnFailure func(failure Failure, err error)
}

// Store writes states to the file, the newest only: one that comes while another is being
// written takes the place of those that wait. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	options Options
	next    *waiting  // what is written next; nil when there is nothing
	since   time.Time // since when a write has taken; zero when there is no writer

	written []byte // the state in the file; the writer's alone
}

// waiting is a state that is to be written. Done is closed when it, or a newer one in its
// place, was written or could not be.
type waiting struct {
	state any
	done  chan struct{}
}

// NewStore returns a store that has written nothing. It starts no goroutine: the writer runs
// while there is something to write.
func NewStore(options Options) *Store { return &Store{options: options} }

// Save writes the state in place of the one before. It does not wait; what it returns waits until
// the state was written, or could not be: for [Patience] at most, and not at all while a write takes
// longer. The state must not be changed any more.
func (s *Store) Save(state any) (kept func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &waiting{done: make(chan struct{})}
	}
	s.next.state = state
	if s.since.IsZero() {
		s.since = s.options.Now()
		go s.write()
	}
	if s.options.Now().Sub(s.since) >= Patience {
		return func() {}
	}
	done := s.next.done
	return func() {
		timer := time.NewTimer(Patience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
}

// write writes what is next until there is nothing more.
func (s *Store) write() {
	for next := s.take(); next != nil; next = s.take() {
		slow := time.AfterFunc(Patience, func() { s.options.OnFailure(WriteSlow, nil) }) // while it lasts: it may hang
		err := s.replace(next.state)
		slow.Stop()
		if err != nil {
			s.options.OnFailure(WriteFailed, err)
		}
		close(next.done)
	}
}

// take returns what is next, and begins its time; nil ends the writer.
func (s *Store) take() (next *waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, s.next, s.since = s.next, nil, s.options.Now()
	if next == nil {
		s.since = time.Time{}
	}
	return next
}

// replace puts a state in place of the one before, unless it is the same.
func (s *Store) replace(state any) error {
	body, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if bytes.Equal(body, s.written) {
		return nil
	}
	text, err := Encode(json.RawMessage(body), s.options.Identity, s.options.Now())
	if err == nil {
		err = Replace(filepath.Join(s.options.Dir, FileName), text)
	}
	if err == nil {
		s.written = body
	}
	return err
}

// Replace puts a file in place of the one before, so that a reader sees the one or the other.
func Replace(path string, text []byte) error {
	fresh := path + ".new" // one name: what a process that was killed leaves is overwritten
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("writing a file of the state directory: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("replacing a file of the state directory: %w", err)
	}
	return nil
}

// Try writes a file in a state directory as a [Store] writes its own, and removes it again. It
// does not touch the store's file, which another process may be writing. The error says why
// states cannot be kept there.
func Try(dir string) error {
	path := filepath.Join(dir, FileName+".try")
	if err := Replace(path, make([]byte, MaxSize)); err != nil {
		_ = os.Remove(path + ".new") // it may be there in part, as where the volume is full
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the state file that was tried: %w", err)
	}
	return nil
}
