package usage

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// errDirent is a listing that is not what getdents64(2) describes.
var errDirent = errors.New("the kernel's listing of the directory makes no sense")

// eachDirectory calls see with the name of each directory in what getdents64(2)
// returned, "." and ".." included. os.ReadDir would allocate for each entry. The
// name is valid during the call only.
func eachDirectory(listing []byte, see func(name []byte)) error {
	// struct linux_dirent64: inode (8 bytes), offset (8), record length (2),
	// type (1), name with a NUL at its end.
	const lengthAt, typeAt, nameAt = 16, 18, 19
	for len(listing) > 0 {
		if len(listing) < nameAt {
			return errDirent
		}
		length := int(binary.NativeEndian.Uint16(listing[lengthAt:]))
		if length <= nameAt || length > len(listing) {
			return errDirent
		}
		record := listing[:length]
		listing = listing[length:]
		name, _, ended := bytes.Cut(record[nameAt:], []byte{0})
		if !ended {
			return errDirent
		}
		// A filesystem that does not tell types is taken at its word: a pod's name on
		// something else fails when it is read.
		if kind := record[typeAt]; kind == unix.DT_DIR || kind == unix.DT_UNKNOWN {
			see(name)
		}
	}
	return nil
}
