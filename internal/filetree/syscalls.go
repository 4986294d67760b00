package filetree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Names are taken as they stand in a listing, with their NUL. A Go string for each file would have to be allocated;
// for each directory, which costs five system calls, one is.

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
func openDirectory(dir int, name []byte, how *unix.OpenHow) (fd int, err error) {
	fd, err = unix.Openat2(dir, unix.ByteSliceToString(name), how)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Openat2(dir, unix.ByteSliceToString(name), how)
	}
	return fd, err
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

// NextEntry takes the first entry off a listing: struct linux_dirent64 is inode (8
// bytes), offset (8), record length (2), type (1), name with a NUL at its end. Kind is
// DT_DIR and so on, and the name that is returned has the NUL. Unlike os.ReadDir it
// allocates nothing.
func NextEntry(listing []byte) (name []byte, kind byte, rest []byte, err error) {
	const lengthAt, kindAt, nameAt = 16, 18, 19
	if len(listing) < nameAt {
		return nil, 0, nil, errListing
	}
	length := int(binary.NativeEndian.Uint16(listing[lengthAt:]))
	if length <= nameAt || length > len(listing) {
		return nil, 0, nil, errListing
	}
	end := bytes.IndexByte(listing[nameAt:length], 0)
	if end <= 0 {
		return nil, 0, nil, errListing
	}
	return listing[nameAt : nameAt+end+1], listing[kindAt], listing[length:], nil
}

// isDots reports whether a name is that of the directory itself or of its parent.
func isDots(name []byte) bool {
	return name[0] == '.' && (len(name) == 2 || len(name) == 3 && name[1] == '.')
}
