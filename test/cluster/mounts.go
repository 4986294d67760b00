package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// mountEntry is one line of /proc/self/mountinfo.
type mountEntry struct {
	path    string
	kind    string // the type of the filesystem
	options string // of the filesystem, such as a v1 hierarchy's controllers
}

func readMounts() ([]mountEntry, error) {
	content, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	return parseMounts(string(content)), nil
}

// parseMounts reads lines such as
//
//	36 35 98:0 /root /path rw,noatime shared:1 - ext4 /dev/sda rw
//
// with any number of optional fields before the dash.
func parseMounts(content string) []mountEntry {
	const path, kind, options = 4, 0, 2
	var mounts []mountEntry
	for line := range strings.Lines(content) {
		before, after, found := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if !found || len(head) <= path || len(tail) <= options {
			continue
		}
		mounts = append(mounts, mountEntry{path: unescape(head[path]), kind: tail[kind], options: tail[options]})
	}
	return mounts
}

// unescape reverses the octal escapes of blanks, tabs, newlines and backslashes.
func unescape(field string) string {
	const length = 4
	var plain strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+length <= len(field) {
			if code, err := strconv.ParseUint(field[i+1:i+length], 8, 8); err == nil {
				plain.WriteByte(byte(code))
				i += length - 1
				continue
			}
		}
		plain.WriteByte(field[i])
	}
	return plain.String()
}
