package usage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountinfoMax is how much of a mountinfo is read: a hundred thousand mounts, the kernel's
// limit for a namespace, with short names. A tenant may have made them.
const mountinfoMax = 16 << 20

// mount is one line of /proc/<pid>/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	*mountinfo.Info
	device uint64 // st_dev of its files
}

// errMountinfo is a line that does not match the manual.
var errMountinfo = errors.New("it is no mountinfo")

// readMounts calls see for each mount of a mountinfo, in its order.
func readMounts(path string, see func(m mount)) error {
	file, err := os.Open(path) //nolint:gosec // below the host's /proc
	if err != nil {
		return fmt.Errorf("reading the mounts: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if err := parseMounts(file, see); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

func parseMounts(from io.Reader, see func(m mount)) error {
	limited := &io.LimitedReader{R: from, N: mountinfoMax}
	sound := true // the library returns 0 for what is no number, and no filesystem has the device 0:0
	_, err := mountinfo.GetMountsFromReader(limited, func(info *mountinfo.Info) (skip, stop bool) {
		device := unix.Mkdev(uint32(info.Major), uint32(info.Minor)) //nolint:gosec // numbers of the kernel
		if sound = device != 0; sound {
			see(mount{info, device})
		}
		return sound, !sound // the library continues after a line that it skips
	})
	switch {
	case limited.N <= 0:
		return fmt.Errorf("it is longer than %d bytes", mountinfoMax)
	case err == nil && sound:
		return nil
	case errors.As(err, new(*fs.PathError)), errors.Is(err, bufio.ErrTooLong):
		return err
	default: // the library's text holds the whole line, which a tenant may have written
		return errMountinfo
	}
}

// upperDir returns the directory that an overlay writes to, as the process that mounted it
// sees it; "" for a mount that has none.
func (m mount) upperDir() string {
	if m.FSType != "overlay" {
		return ""
	}
	for option := range strings.SplitSeq(m.VFSOptions, ",") {
		if dir, found := strings.CutPrefix(option, "upperdir="); found {
			return unescape(dir)
		}
	}
	return ""
}

// unescape replaces the three octal digits that the kernel writes for a space, a comma and
// other special characters (seq_escape, mangle_path), which Go writes in the same way.
func unescape(text string) string {
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		return text
	}
	return plain
}
