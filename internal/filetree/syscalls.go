package filetree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are those of golang.org/x/sys/unix, but take a name as it stands in
// a listing, with its NUL: a Go string for each file would have to be allocated.

const (
	// statMask is all that is read of a file.
	statMask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS
	// statFlags: a network filesystem answers from what it knows already.
	statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	// blockSize is the unit of st_blocks, whatever the filesystem's own is.
	blockSize = 512
)

// openDirectory opens what a single name in a directory stands for.
func openDirectory(dir int, name []byte, how *unix.OpenHow) (int, error) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir),
			uintptr(unsafe.Pointer(&name[0])),                      //nolint:gosec // the kernel reads up to the NUL
			uintptr(unsafe.Pointer(how)), unix.SizeofOpenHow, 0, 0) //nolint:gosec // of the size that is told
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// stat looks at a name in a directory, or with AT_EMPTY_PATH at the directory.
func stat(dir int, name []byte, flags int, into *unix.Statx_t) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir),
			uintptr(unsafe.Pointer(&name[0])),                          //nolint:gosec // the kernel reads up to the NUL
			uintptr(flags), statMask, uintptr(unsafe.Pointer(into)), 0) //nolint:gosec // of the kernel's size
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// errListing is a listing that is not what getdents64(2) describes.
var errListing = errors.New("the kernel's listing of the directory makes no sense")

// Entry is one name in a listing.
type Entry struct {
	// Name has the NUL at its end.
	Name []byte
	// Kind is DT_DIR and so on.
	Kind byte
}

// NextEntry takes the first entry off a listing: struct linux_dirent64 is inode (8
// bytes), offset (8), record length (2), type (1), name with a NUL at its end. Unlike
// os.ReadDir it allocates nothing.
func NextEntry(listing []byte) (e Entry, rest []byte, err error) {
	const lengthAt, kindAt, nameAt = 16, 18, 19
	if len(listing) < nameAt {
		return Entry{}, nil, errListing
	}
	length := int(binary.NativeEndian.Uint16(listing[lengthAt:]))
	if length <= nameAt || length > len(listing) {
		return Entry{}, nil, errListing
	}
	end := bytes.IndexByte(listing[nameAt:length], 0)
	if end <= 0 {
		return Entry{}, nil, errListing
	}
	return Entry{Name: listing[nameAt : nameAt+end+1], Kind: listing[kindAt]}, listing[length:], nil
}

// isDots reports whether a name is that of the directory itself or of its parent.
func isDots(name []byte) bool {
	return name[0] == '.' && (len(name) == 2 || len(name) == 3 && name[1] == '.')
}

// pathOf names an open directory in a fault.
func pathOf(fd int) string {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "a directory"
	}
	return strconv.Quote(path)
}
