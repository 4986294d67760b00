// Package state keeps what must survive a restart of the container: one document, whose content is
// its owner's, in a small file. It is replaced as a whole by a rename, so that a reader sees the old one
// or the new one.
//
// The file is not synced to the disk. A process that is killed loses nothing that it has
// written, whatever the filesystem: the page cache belongs to the kernel. A machine that
// crashes may lose it, but then it has booted anew, and a file of another boot is not used
// at all: on tmpfs, where the shipped manifest puts it, fsync does nothing anyway.
//
// Times are wall-clock times, because a monotonic reading means nothing in another process.
// They are compared within one boot only, see [Restored].
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	kjson "sigs.k8s.io/json"
)

// FileName is the file's name in the state directory.
const FileName = "state.json"

// version is the format's. A file of another one is not used: it is another evictd's, and
// guessing would be worse than a careful start.
const version = 4

// MaxSize is the most that is written, in bytes. While it is replaced the old file and the
// new one must fit into the volume, of 1 MiB in the shipped manifest, beside whatever else is
// kept there. A node of 110 pods needs a quarter of it.
const MaxSize = 256 << 10

// BootID returns the ID of this boot, which the kernel makes anew for each, below the directory at which
// the host's /proc is mounted; "" is /. It says which machine a file belongs to too: two never have one.
func BootID(hostRoot string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/", hostRoot, "proc/sys/kernel/random/boot_id")) //nolint:gosec // the root is an argument of the administrator's
	if err != nil {
		return "", fmt.Errorf("reading the boot ID: %w", err)
	}
	id := string(bytes.TrimSpace(text))
	if id == "" {
		return "", errors.New("reading the boot ID: the file is empty")
	}
	return id, nil
}

// document is the file.
type document struct {
	BootID  string `json:"bootID"`
	Version int    `json:"version"`
	State   any    `json:"state"`
}

// Load reads the state in a directory, of this boot, into a value of the type that was saved. An error says
// why the file is not used: nothing is known then of what was before. It is an [os.ErrNotExist] where there
// is none, as at a pod's first start.
func Load(dir, bootID string, into any) error {
	text, err := os.ReadFile(filepath.Join(dir, FileName)) //nolint:gosec // the directory is an argument of the administrator's
	if err != nil {
		return fmt.Errorf("reading the state file: %w", err)
	}
	return Decode(text, bootID, into)
}

// Decode reads the state in a file's text, strictly: what evictd did not write is refused as a whole,
// and so is what belongs to another version or another boot.
func Decode(text []byte, bootID string, into any) error {
	var body json.RawMessage
	d := document{State: &body}
	err := unmarshal(text, &d)
	switch {
	case (err == nil || d.Version > 0) && d.Version != version: // the fields of another one may be unknown
		err = fmt.Errorf("it has version %d, and this evictd reads version %d", d.Version, version)
	case err == nil && d.BootID != bootID:
		err = fmt.Errorf("it is of boot %q, and this is %q", d.BootID, bootID)
	case err == nil:
		err = unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("decoding the state file: %w", err)
	}
	return nil
}

func unmarshal(text []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(text, into)
	return errors.Join(append(strict, err)...)
}

// Encode returns the text of a file with that state. More than [MaxSize] bytes are an error.
func Encode(state any, bootID string) ([]byte, error) {
	text, err := json.Marshal(document{BootID: bootID, Version: version, State: state})
	if err == nil && len(text) > MaxSize {
		err = fmt.Errorf("it has %d bytes, and %d are kept at most", len(text), MaxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the state file: %w", err)
	}
	return text, nil
}

// Restored returns a time of a state file with a monotonic reading: from now on a wall clock that is set
// back or forward changes nothing. It is in the future by ahead at most: a clock that was set back
// before the start must make nothing last longer. The zero time stays.
func Restored(at, now time.Time, ahead time.Duration) time.Time {
	if at.IsZero() {
		return at
	}
	return now.Add(min(at.Sub(now), ahead))
}

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
		select {
		case <-done:
		case <-time.NewTimer(Patience).C:
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
