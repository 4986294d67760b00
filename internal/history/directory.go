package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The name of a file says its hour, in UTC.
const (
	hour   = "2006-01-02T15"
	suffix = ".jsonl.zst"
)

// directory is where a record is: a file an hour.
type directory struct {
	path    string
	maxSize int64 // of all files together, in bytes
}

// append adds frames to the file of an hour, or nothing at all: what a full disk took of them is cut off again.
func (d directory) append(at time.Time, frames []byte) error {
	file, err := os.OpenFile(filepath.Join(d.path, at.UTC().Format(hour)+suffix), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // an hour
	if err != nil {
		return fmt.Errorf("opening a file of the record: %w", err)
	}
	before, err := file.Stat()
	if err == nil {
		if _, err = file.Write(frames); err != nil {
			err = errors.Join(err, file.Truncate(before.Size()))
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	return d.prune()
}

// prune removes the oldest files until the others fit, but the newest.
func (d directory) prune() error {
	files, err := d.files()
	var size int64
	for i, f := range slices.Backward(files) {
		if size += f.size; size > d.maxSize && i < len(files)-1 {
			err = errors.Join(err, os.Remove(f.path))
		}
	}
	if err != nil {
		return fmt.Errorf("removing old files of the record: %w", err)
	}
	return nil
}

// file is one of a record.
type file struct {
	path string
	from time.Time // when its hour begins
	size int64
}

// files returns those of the record, the oldest first; others are not its own.
func (d directory) files() (all []file, err error) {
	entries, err := os.ReadDir(d.path) // by name
	for _, e := range entries {
		from, other := time.Parse(hour+suffix, e.Name())
		info, gone := e.Info()
		if other == nil && gone == nil && e.Type().IsRegular() {
			all = append(all, file{filepath.Join(d.path, e.Name()), from, info.Size()})
		}
	}
	return all, err
}

// open returns the files of a record: a directory's, or the one that was exported.
func open(path string) ([]file, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no record at %s; evictd run --record keeps one, and evictd record export saves one", path)
	case err != nil:
		return nil, err
	case !info.IsDir() && info.Size() == 0:
		return nil, fmt.Errorf("%s is empty, and no record; name a file of evictd record export", path)
	case !info.IsDir():
		return []file{{path: path}}, nil
	}
	files, err := directory{path: path}.files()
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no record in %s yet; evictd run --record writes it, a calm node's after ten minutes", path)
	}
	return files, err
}
