package usage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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
	device  uint64 // st_dev of its files
	point   string // where it is, relative to the process's root
	kind    string // of the filesystem
	options string // of the superblock, as the kernel wrote them
}

// errMountinfo is a line that does not match the manual.
var errMountinfo = errors.New("it is no mountinfo")

// readMounts calls see for each mount of a mountinfo, in its order.
func readMounts(path string, see func(m *mount)) error {
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

func parseMounts(from io.Reader, see func(m *mount)) error {
	limited := &io.LimitedReader{R: from, N: mountinfoMax}
	sound := true
	_, err := mountinfo.GetMountsFromReader(limited, func(info *mountinfo.Info) (skip, stop bool) {
		m := &mount{point: info.Mountpoint, kind: info.FSType, options: info.VFSOptions}
		m.device, sound = mountDevice(info)
		if sound = sound && m.point != "" && m.kind != ""; sound {
			see(m)
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

// mountDevice returns false for an invalid device: the library returns 0 for a number that
// it cannot read, and no filesystem has the device 0:0.
func mountDevice(info *mountinfo.Info) (uint64, bool) {
	major, minor := info.Major, info.Minor
	if major < 0 || major > math.MaxUint32 || minor < 0 || minor > math.MaxUint32 || major == 0 && minor == 0 {
		return 0, false
	}
	return unix.Mkdev(uint32(major), uint32(minor)), true
}

// upperDir returns the directory that an overlay writes to, as the process that mounted it
// sees it; "" for a mount that has none.
func (m *mount) upperDir() string {
	if m.kind != "overlay" {
		return ""
	}
	for option := range strings.SplitSeq(m.options, ",") {
		if dir, found := strings.CutPrefix(option, "upperdir="); found {
			return unescape(dir)
		}
	}
	return ""
}

// unescape replaces the three octal digits that the kernel writes for a space, a comma and
// other special characters (seq_escape, mangle_path).
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	const digits, octal, byteBits = 3, 8, 8
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+digits < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+1+digits], octal, byteBits); err == nil {
				plain = append(plain, byte(code))
				i += digits
				continue
			}
		}
		plain = append(plain, text[i])
	}
	return string(plain)
}
