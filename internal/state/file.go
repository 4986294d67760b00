package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	kjson "sigs.k8s.io/json"
)

// FileName is the file's name in the state directory.
const FileName = "state.json"

// version is the format's. A file of another one is not used: it is another evictd's, and
// guessing would be worse than a careful start.
const version = 3

// MaxSize is the most that is written, in bytes. While it is replaced the old file and the
// new one must fit into the volume, of 1 MiB in the shipped manifest, beside whatever else is
// kept there. A node of 110 pods needs a quarter of it.
const MaxSize = 256 << 10

// maxRead is the most that is read, in bytes.
const maxRead = 1 << 20

// futureTolerance is how far in the future a file may have been written: a clock that is being
// corrected is set back by less. The entries' times then count as now.
const futureTolerance = time.Minute

// Identity says which boot of which node a file belongs to.
type Identity struct {
	// BootID is the kernel's, which each boot makes anew.
	BootID string
	// NodeUID is the UID of the Node object; "" where it is not known, and then it is not
	// compared: two machines never have one boot ID.
	NodeUID string
}

// BootID returns the ID of this boot, below the directory at which the host's /proc is
// mounted; "" is /.
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

// Reason says why a file is not used.
type Reason string

// The reasons.
const (
	// Missing: there is no file, as at a pod's first start.
	Missing Reason = "Missing"
	// Unreadable: it could not be read.
	Unreadable Reason = "Unreadable"
	// TooLarge: it is larger than evictd writes one.
	TooLarge Reason = "TooLarge"
	// Malformed: it is cut, or not what evictd writes.
	Malformed Reason = "Malformed"
	// OtherVersion: it has another format.
	OtherVersion Reason = "OtherVersion"
	// OtherBoot: the node was booted since.
	OtherBoot Reason = "OtherBoot"
	// OtherNode: it belongs to another Node object.
	OtherNode Reason = "OtherNode"
	// FromTheFuture: by this clock it was not written yet.
	FromTheFuture Reason = "FromTheFuture"
)

// UnusableError says why a file is not used.
type UnusableError struct {
	Reason Reason
	err    error
}

// Error returns one sentence.
func (e *UnusableError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UnusableError) Unwrap() error { return e.err }

func unusable(reason Reason, format string, arguments ...any) error {
	return &UnusableError{Reason: reason, err: fmt.Errorf(format, arguments...)}
}

// head is all of the file but the state.
type head struct {
	Version int       `json:"version"`
	BootID  string    `json:"bootID"`
	NodeUID string    `json:"nodeUID,omitempty"`
	Written time.Time `json:"written"`
}

// document is the file.
type document struct {
	head

	State State `json:"state"`
}

// Load returns the state in a directory. An error is an [*UnusableError]: nothing is known
// then of what was before.
func Load(dir string, own Identity, now time.Time) (*State, error) {
	file, err := os.Open(filepath.Join(dir, FileName)) //nolint:gosec // the directory is an argument of the administrator's
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unusable(Missing, "reading the state file: %w", err)
	}
	if err != nil {
		return nil, unusable(Unreadable, "reading the state file: %w", err)
	}
	defer func() { _ = file.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(file, maxRead+1))
	if err != nil {
		return nil, unusable(Unreadable, "reading the state file: %w", err)
	}
	return Decode(text, own, now)
}

// Decode returns the state in a file's text, strictly: what evictd did not write is refused as
// a whole. An error is an [*UnusableError].
func Decode(text []byte, own Identity, now time.Time) (*State, error) {
	if len(text) > maxRead {
		return nil, unusable(TooLarge, "decoding the state file: it has more than %d bytes", maxRead)
	}
	var of struct {
		Version int `json:"version"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &of); err != nil {
		return nil, unusable(Malformed, "decoding the state file: %w", err)
	}
	if of.Version != version {
		return nil, unusable(OtherVersion, "decoding the state file: its version is %d, and evictd reads %d", of.Version, version)
	}
	var d document
	strict, err := kjson.UnmarshalStrict(text, &d)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, unusable(Malformed, "decoding the state file: %w", err)
	}
	if err = belongs(&d.head, own, now); err != nil {
		return nil, err
	}
	return &d.State, nil
}

// belongs returns an error unless the file is of this boot of this node, and not of the future.
func belongs(d *head, own Identity, now time.Time) error {
	switch ahead := d.Written.Sub(now); {
	case d.BootID != own.BootID:
		return unusable(OtherBoot, "decoding the state file: it is of boot %q, and this is %q", d.BootID, own.BootID)
	case d.NodeUID != "" && own.NodeUID != "" && d.NodeUID != own.NodeUID:
		return unusable(OtherNode, "decoding the state file: it is of the node with UID %q, and this is %q", d.NodeUID, own.NodeUID)
	case ahead > futureTolerance:
		return unusable(FromTheFuture, "decoding the state file: it was written %v in the future", ahead.Round(time.Second))
	}
	return nil
}

// Encode returns a file's text, of little more than [MaxSize] at most: where there is more,
// the largest sections lose their oldest entries.
func Encode(s State, own Identity, now time.Time) ([]byte, error) {
	text, err := encodeState(s)
	if err != nil {
		return nil, err
	}
	return encodeFile(text, own, now)
}

func encodeFile(state []byte, own Identity, now time.Time) ([]byte, error) {
	text, err := json.Marshal(head{Version: version, BootID: own.BootID, NodeUID: own.NodeUID, Written: now})
	if err != nil {
		return nil, fmt.Errorf("encoding the state file: %w", err)
	}
	// Not by Marshal, which would go over the state once more: it is most of the work.
	text = append(text[:len(text)-1], `,"state":`...)
	return append(append(text, state...), '}'), nil
}

func encodeState(s State) ([]byte, error) {
	for {
		text, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encoding the state: %w", err)
		}
		if len(text) <= MaxSize {
			return text, nil
		}
		if err := s.shorten(); err != nil {
			return nil, fmt.Errorf("encoding the state: %w", err)
		}
	}
}

// section is one list of a state.
type section struct {
	size int // in the file, in bytes
	drop func()
}

// shorten drops the older half of the largest section.
func (s *State) shorten() error {
	largest := section{}
	for _, one := range []section{
		sectionOf(&s.Incidents), sectionOf(&s.InFlight.Victims), sectionOf(&s.Cooldown.Limits),
		sectionOf(&s.Cooldown.Backoff.Pods), sectionOf(&s.Cooldown.Backoff.Budgets),
	} {
		if one.size > largest.size {
			largest = one
		}
	}
	if largest.drop == nil {
		return fmt.Errorf("one entry alone takes more than %d bytes", MaxSize)
	}
	largest.drop()
	return nil
}

func sectionOf[T any](entries *[]T) section {
	if len(*entries) == 0 {
		return section{}
	}
	text, err := json.Marshal(*entries)
	if err != nil {
		return section{}
	}
	return section{size: len(text), drop: func() { *entries = (*entries)[(len(*entries)+1)/2:] }}
}
