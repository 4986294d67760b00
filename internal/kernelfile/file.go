// Package kernelfile reads small files of the kernel (/proc, cgroups) again and again, and never takes a
// fault for a number: a file that is missing, empty, cut off, too large or not what it should be is an
// error that says which and where.
//
//	buffer := make([]byte, 128)
//	file := kernelfile.File{Path: "/sys/fs/cgroup/kubepods.slice/pids.current"}
//	tasks, err := kernelfile.Parse(&file, buffer, kernelfile.Number)
//
// Reading allocates nothing. [HierarchyOf] says which version of cgroups a node has. The package and filetree are
// what pkg/pressure and pkg/usage share.
package kernelfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Faults of a file that could be read.
var (
	// ErrEmpty: nothing is in it.
	ErrEmpty = errors.New("the file is empty")
	// ErrTooLarge: it fills the buffer, so its end was not seen.
	ErrTooLarge = errors.New("the file is larger than it can be")
)

// File is a file that stays open, because opening costs more than reading and may
// fail on a node in trouble. Each reading is one pread(2) from the start, and the
// kernel renders such a file anew for it, so a reading is never a mixture of two
// moments. It is for one goroutine.
type File struct {
	// Path is where the first read opens it.
	Path string

	fd   int
	open bool
}

// Parse reads the whole file into the buffer, which must be larger than the file can be, and takes a figure
// from it. A file that fails is opened once more: it may have been mounted, or its cgroup made, anew under the
// same name. The error names the path and wraps the fault.
func Parse[T any](f *File, buffer []byte, parse func(content []byte) (T, error)) (figure T, err error) {
	kept := f.open
	content, err := f.readOnce(buffer)
	if err != nil && kept {
		content, err = f.readOnce(buffer)
	}
	if err == nil {
		figure, err = parse(content)
	}
	if err != nil {
		return *new(T), fmt.Errorf("reading %s: %w", f.Path, err)
	}
	return figure, nil
}

// ParseOnce is Parse of a file that does not stay open.
func ParseOnce[T any](path string, buffer []byte, parse func(content []byte) (T, error)) (T, error) {
	file := File{Path: path}
	defer file.Close()
	return Parse(&file, buffer, parse)
}

func (f *File) readOnce(buffer []byte) (_ []byte, err error) {
	if !f.open {
		f.fd, err = unix.Open(f.Path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) // or a FIFO in its place would hang
		if err != nil {
			return nil, err
		}
		f.open = true
	}
	size, err := unix.Pread(f.fd, buffer, 0)
	for errors.Is(err, unix.EINTR) {
		size, err = unix.Pread(f.fd, buffer, 0)
	}
	switch {
	case err != nil:
	case size == 0:
		err = ErrEmpty
	case size == len(buffer):
		err = ErrTooLarge
	default:
		return buffer[:size], nil
	}
	f.Close()
	return nil, err
}

// Close closes the file; the next read opens it again.
func (f *File) Close() {
	if f.open {
		_ = unix.Close(f.fd) // nothing was written
		f.open = false
	}
}
