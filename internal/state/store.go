package state

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Patience is how long a request waits for its state to be written, and how long a write may
// take before it counts as slow. Pressure does not wait for a disk.
const Patience = 50 * time.Millisecond

// Store writes states to the file, the newest only: one that comes while another is being
// written takes the place of those that wait. It is safe for concurrent use.
type Store struct {
	path, bootID string
	onFailure    func(error)

	mu   sync.Mutex
	next any           // what is written next; nil when there is nothing
	done chan struct{} // closed once all is written, or could not be; nil when there is no writer

	written []byte // the file's text; the writer's alone
}

// NewStore returns a store that has written nothing, for a directory that must be there. OnFailure is called,
// from a goroutine of the store's, with each write that failed, which leaves the file as it was, and with
// each that takes longer than [Patience]. The writer runs only while there is something to write.
func NewStore(dir, bootID string, onFailure func(error)) *Store {
	return &Store{path: filepath.Join(dir, FileName), bootID: bootID, onFailure: onFailure}
}

// Save writes the state in place of the one before. It does not wait; what it returns waits until
// the state was written, or could not be: for [Patience] at most. The state must not be changed any
// more.
func (s *Store) Save(state any) (kept func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next = state; s.done == nil {
		s.done = make(chan struct{})
		go s.write()
	}
	done := s.done
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
	for state := s.take(); state != nil; state = s.take() {
		slow := time.AfterFunc(Patience, func() { s.onFailure(fmt.Errorf("it takes longer than %v", Patience)) }) // it may hang
		err := s.replace(state)
		slow.Stop()
		if err != nil {
			s.onFailure(err)
		}
	}
}

// take returns what is next; nil ends the writer.
func (s *Store) take() (state any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, s.next = s.next, nil
	if state == nil {
		close(s.done)
		s.done = nil
	}
	return state
}

// replace puts a state in place of the one before, unless it is the same.
func (s *Store) replace(state any) error {
	text, err := Encode(state, s.bootID)
	if err != nil || bytes.Equal(text, s.written) {
		return err
	}
	if err = Replace(s.path, text); err == nil {
		s.written = text
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
	err := Replace(path, make([]byte, MaxSize))
	if err == nil {
		err = os.Remove(path)
	}
	_ = os.Remove(path + ".new") // it may be there in part, as where the volume is full
	return err
}
