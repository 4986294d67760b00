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
	// Identity is this boot and node.
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
	options Options

	mu      sync.Mutex
	nodeUID string
	next    *handed // what is written next; nil when there is nothing
	current *handed // what is being written; nil when nothing is
	writing bool
	late    bool // what is being written takes longer than Patience

	written []byte // the state in the file; the writer's alone
}

// handed is a state that is to be written. Done is closed when it, or a newer one in its
// place, was written or could not be.
type handed struct {
	state any
	done  chan struct{}
}

// NewStore returns a store that has written nothing. It starts no goroutine: the writer runs
// while there is something to write.
func NewStore(options Options) *Store {
	return &Store{options: options, nodeUID: options.Identity.NodeUID}
}

// SetNodeUID says what the node's UID is, once it is known.
func (s *Store) SetNodeUID(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodeUID = uid
}

// Save writes the state in place of the one before. It does not wait; what it returns waits until
// the state was written, or could not be: for [Patience] at most, and not at all while a write takes
// longer. The state must not be changed any more.
func (s *Store) Save(state any) (kept func()) {
	done, late := s.hand(state)
	if late {
		return func() {}
	}
	return func() { await(done) }
}

// await waits until it is done, for [Patience] at most.
func await(done <-chan struct{}) {
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// hand hands a state to the writer, and starts it where it does not run.
func (s *Store) hand(state any) (done <-chan struct{}, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &handed{state: state, done: make(chan struct{})}
	if s.next != nil {
		next.done = s.next.done // closed for the callers that wait for the older one
	}
	s.next = next
	if !s.writing {
		s.writing = true
		go s.write()
	}
	return next.done, s.late
}

// write writes what was handed over until there is nothing more.
func (s *Store) write() {
	for {
		next, own := s.take()
		if next == nil {
			return
		}
		watch := time.AfterFunc(Patience, func() { s.noticeSlow(next) })
		err := s.replace(next.state, own)
		watch.Stop()
		if err != nil {
			s.options.OnFailure(WriteFailed, err)
		}
		close(next.done)
	}
}

// take ends what is being written, and begins the next; nil ends the writer.
func (s *Store) take() (*handed, Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.options.Identity
	own.NodeUID = s.nodeUID
	s.current, s.next, s.late = s.next, nil, false
	s.writing = s.current != nil
	return s.current, own
}

// noticeSlow tells of a write that takes longer than [Patience], while it does: it may hang.
func (s *Store) noticeSlow(one *handed) {
	s.mu.Lock()
	slow := s.current == one
	s.late = s.late || slow
	s.mu.Unlock()
	if slow {
		s.options.OnFailure(WriteSlow, nil)
	}
}

// replace puts a state in place of the one before, unless it is the same.
func (s *Store) replace(state any, own Identity) error {
	body, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if bytes.Equal(body, s.written) {
		return nil
	}
	text, err := encode(body, own, s.options.Now())
	if err != nil {
		return err
	}
	if err = replaceFile(filepath.Join(s.options.Dir, FileName), text); err != nil {
		return err
	}
	s.written = body
	return nil
}

// replaceFile puts a file in place of the one before.
func replaceFile(path string, text []byte) error {
	fresh := path + ".new" // one name: what a process that was killed leaves is overwritten
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("replacing the state file: %w", err)
	}
	return nil
}

// Try writes a file in a state directory as a [Store] writes its own, and removes it again. It
// does not touch the store's file, which another process may be writing. The error says why
// states cannot be kept there.
func Try(dir string) error {
	path := filepath.Join(dir, FileName+".try")
	if err := replaceFile(path, make([]byte, MaxSize)); err != nil {
		_ = os.Remove(path + ".new") // it may be there in part, as where the volume is full
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the state file that was tried: %w", err)
	}
	return nil
}
