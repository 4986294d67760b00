package pressure

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Sizes of the files that are read. /proc/meminfo has about 1,500 bytes; a file
// that fills its buffer is not what it should be.
const (
	meminfoMax = 16 << 10
	statMax    = 64 << 10
	numberMax  = 128
)

// kernelFile is a small file of the kernel that is read again and again. It stays
// open, because opening costs more than reading and may fail on a node in
// trouble. Each reading is one pread(2) from the start, and the kernel renders such
// a file anew for it, so a reading is never a mixture of two moments.
type kernelFile struct {
	path   string
	fd     int
	buffer []byte
}

// newKernelFile opens nothing; the first read does.
func newKernelFile(path string, size int) *kernelFile {
	return &kernelFile{path: path, fd: -1, buffer: make([]byte, size)}
}

// read returns the whole file. The bytes are valid until the next read. A file
// that fails is opened once more, since it may have been mounted anew.
func (f *kernelFile) read() ([]byte, error) {
	kept := f.fd >= 0
	content, err := f.readOnce()
	if err != nil && kept {
		content, err = f.readOnce()
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.path, err)
	}
	return content, nil
}

// Faults of a file that could be read.
var (
	errEmpty    = errors.New("the file is empty")
	errTooLarge = errors.New("the file is larger than it can be")
)

func (f *kernelFile) readOnce() ([]byte, error) {
	if f.fd < 0 {
		fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		f.fd = fd
	}
	size, err := unix.Pread(f.fd, f.buffer, 0)
	for errors.Is(err, unix.EINTR) {
		size, err = unix.Pread(f.fd, f.buffer, 0)
	}
	switch {
	case err != nil:
	case size == 0:
		err = errEmpty
	case size == len(f.buffer):
		err = errTooLarge
	default:
		return f.buffer[:size], nil
	}
	f.close()
	return nil, err
}

func (f *kernelFile) close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd) // nothing was written
		f.fd = -1
	}
}
