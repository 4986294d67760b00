package usage

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Faults of a file's content.
var (
	errEmpty     = errors.New("the file is empty")
	errTooLarge  = errors.New("the file is larger than it can be")
	errNoNumber  = errors.New("no number where one should be")
	errOverflow  = errors.New("the number is too large")
	errTruncated = errors.New("the last line has no end")
	errTrailing  = errors.New("more than a number")
)

// kernelFile is a small file of the kernel that is read again and again. It stays
// open: reading is then one pread(2), for which the kernel renders the file anew.
type kernelFile struct {
	path string
	fd   int // -1 while closed
}

// read returns the whole file, in buffer. A file that fails is opened once more:
// its cgroup may have been made anew under the same name.
func (f *kernelFile) read(buffer []byte) ([]byte, error) {
	kept := f.fd >= 0
	content, err := f.readOnce(buffer)
	if err != nil && kept {
		content, err = f.readOnce(buffer)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.path, err)
	}
	return content, nil
}

func (f *kernelFile) readOnce(buffer []byte) ([]byte, error) {
	if f.fd < 0 {
		fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		f.fd = fd
	}
	size, err := unix.Pread(f.fd, buffer, 0)
	for errors.Is(err, unix.EINTR) {
		size, err = unix.Pread(f.fd, buffer, 0)
	}
	switch {
	case err != nil:
	case size == 0:
		err = errEmpty
	case size == len(buffer):
		err = errTooLarge
	default:
		return buffer[:size], nil
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

// number reads a file that holds one number and the end of its line.
func (f *kernelFile) number(buffer []byte) (int64, error) {
	content, err := f.read(buffer)
	if err != nil {
		return 0, err
	}
	n, err := parseNumber(content)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", f.path, err)
	}
	return n, nil
}

// leadingNumber reads the decimal digits that text starts with and returns what
// follows them. There is no sign: nothing that is read here can be negative.
func leadingNumber(text []byte) (n int64, rest []byte, err error) {
	i := 0
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		digit := int64(text[i] - '0')
		if n > (math.MaxInt64-digit)/10 {
			return 0, nil, errOverflow
		}
		n = n*10 + digit
		i++
	}
	if i == 0 {
		return 0, nil, errNoNumber
	}
	return n, text[i:], nil
}

func parseNumber(content []byte) (int64, error) {
	n, rest, err := leadingNumber(content)
	switch {
	case err != nil:
		return 0, err
	case len(rest) == 0:
		return 0, errTruncated
	case string(rest) != "\n":
		return 0, errTrailing
	}
	return n, nil
}

// memoryStat are the figures of a memory.stat that matter here, in bytes.
type memoryStat struct{ anonymous, shared, inactiveFile int64 }

// statKeys are their names, each with the space that ends it. On cgroup v1 the
// figures that begin with "total_" include the groups below, which is where the
// containers are.
type statKeys struct{ anonymous, shared, inactiveFile string }

func keysOf(unified bool) statKeys {
	if unified {
		return statKeys{anonymous: "anon ", shared: "shmem ", inactiveFile: "inactive_file "}
	}
	return statKeys{anonymous: "total_rss ", shared: "total_shmem ", inactiveFile: "total_inactive_file "}
}

// parse reads the figures. All must be there, each on a line with an end: the last
// line may have been cut off in a number.
func (k *statKeys) parse(content []byte) (memoryStat, error) {
	anonymous, err := parseStat(content, k.anonymous)
	if err != nil {
		return memoryStat{}, err
	}
	shared, err := parseStat(content, k.shared)
	if err != nil {
		return memoryStat{}, err
	}
	inactiveFile, err := parseStat(content, k.inactiveFile)
	if err != nil {
		return memoryStat{}, err
	}
	return memoryStat{anonymous: anonymous, shared: shared, inactiveFile: inactiveFile}, nil
}

func parseStat(content []byte, key string) (int64, error) {
	for len(content) > 0 {
		end := bytes.IndexByte(content, '\n')
		if end < 0 {
			break
		}
		line := content[:end]
		content = content[end+1:]
		if len(line) < len(key) || string(line[:len(key)]) != key {
			continue
		}
		n, rest, err := leadingNumber(line[len(key):])
		if err == nil && len(rest) > 0 {
			err = errTrailing
		}
		if err != nil {
			return 0, fmt.Errorf("line %q: %w", key, err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("no line %q", key)
}
