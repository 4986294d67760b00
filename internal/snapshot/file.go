package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// MaxBytes bounds a snapshot: one of 12,500 pods, finished and not yet deleted, takes 10 MiB
// and more, so that what is larger is some other file.
const MaxBytes = 64 << 20

// ErrExists says that a file is there already: a snapshot is never written over
// another file.
var ErrExists = errors.New("the file is there already; name another one, or remove it first")

// Encode returns the snapshot as indented JSON, with a line break at the end.
func (s *NodeSnapshot) Encode() ([]byte, error) {
	written := *s
	written.APIVersion, written.Kind = APIVersion, Kind
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&written); err != nil {
		return nil, fmt.Errorf("writing the snapshot: %w", err)
	}
	return text.Bytes(), nil
}

// CheckFree returns [ErrExists] when something has that path already, before any work is done.
func CheckFree(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return ErrExists
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// Save writes the snapshot to a new file that its owner alone may read. The file
// appears whole or not at all; one that is there already is an [ErrExists].
func (s *NodeSnapshot) Save(path string) error {
	text, err := s.Encode()
	if err != nil {
		return err
	}
	partial, err := os.CreateTemp(filepath.Dir(path), ".evictd-snapshot-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("writing the snapshot: %w", err)
	}
	defer os.Remove(partial.Name()) //nolint:errcheck // the other name stays
	_, err = partial.Write(text)
	err = errors.Join(err, partial.Sync(), partial.Close())
	if err == nil {
		err = os.Link(partial.Name(), path) // a rename would replace a file that appeared meanwhile
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case err != nil:
		return fmt.Errorf("writing the snapshot: %w", err)
	}
	return nil
}

// Load reads and checks the snapshot in a file, which may be a pipe.
func Load(path string) (_ *NodeSnapshot, err error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return Read(file)
}

// Read reads and checks a snapshot. It reads no more than [MaxBytes] and one byte.
func Read(r io.Reader) (*NodeSnapshot, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	return Decode(data)
}
