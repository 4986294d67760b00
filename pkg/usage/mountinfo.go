package usage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountinfoMax is how much of a mountinfo is read: a hundred thousand mounts, the
// kernel's limit for a namespace, with short names. A tenant may have made them.
const mountinfoMax = 16 << 20

// mount is one line of /proc/<pid>/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	device  uint64 // st_dev of what is in it
	point   string // where it is, relative to the process's root
	kind    string // of the filesystem
	options string // of the superblock, as the kernel wrote them
}

// errMountinfo is a line that is not what the manual describes.
var errMountinfo = errors.New("it is no mountinfo")

// readMounts calls see with each mount of a mountinfo, in its order.
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
	const lineMax = 1 << 20 // the options of one mount, with hundreds of lower directories
	limited := &io.LimitedReader{R: from, N: mountinfoMax}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 4096), lineMax)
	for lines.Scan() && limited.N > 0 {
		m, err := parseMount(lines.Text())
		if err != nil {
			return err
		}
		see(m)
	}
	if limited.N <= 0 {
		return fmt.Errorf("it is longer than %d bytes", mountinfoMax)
	}
	return lines.Err()
}

// parseMount reads a line such as
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//
// in which there may be any number of fields before the dash.
func parseMount(line string) (*mount, error) {
	const deviceAt, pointAt, optionalAt = 2, 4, 6
	before, after, found := strings.Cut(line, " - ")
	fields, rest := strings.Fields(before), strings.Fields(after)
	if !found || len(fields) < optionalAt || len(rest) < 1 {
		return nil, errMountinfo
	}
	m := &mount{point: unescape(fields[pointAt]), kind: rest[0]}
	if len(rest) > 2 { // a source without a name is written as nothing
		m.options = rest[len(rest)-1]
	}
	majorText, minorText, found := strings.Cut(fields[deviceAt], ":")
	major, err := strconv.ParseUint(majorText, 10, 32)
	if !found || err != nil {
		return nil, errMountinfo
	}
	minor, err := strconv.ParseUint(minorText, 10, 32)
	if err != nil {
		return nil, errMountinfo
	}
	m.device = unix.Mkdev(uint32(major), uint32(minor))
	return m, nil
}

// upperDir returns the directory that an overlay writes to, as the one who mounted it
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

// unescape replaces the three octal digits that the kernel writes for a space, a comma
// and other signs that would be taken for its own (seq_escape, mangle_path).
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
