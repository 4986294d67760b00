package hostinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ReclaimableARC returns how much of its cache, the ARC, ZFS can give back at once, in bytes, below
// the directory at which the host's /proc is mounted; "" is /. MemAvailable counts none of it. It
// is 0 on a host without ZFS.
func ReclaimableARC(hostRoot string) (int64, error) {
	path := filepath.Join("/", hostRoot, "proc/spl/kstat/zfs/arcstats")
	text, err := os.ReadFile(path) //nolint:gosec // the root is an argument of the administrator's
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading what ZFS caches: %w", err)
	}
	figures := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if name, rest, _ := strings.Cut(line, " "); len(strings.Fields(rest)) == 2 { // its type, and the figure
			figures[name], err = strconv.ParseInt(strings.Fields(rest)[1], 10, 64)
			if err != nil {
				delete(figures, name) // a heading
			}
		}
	}
	for _, name := range []string{"size", "c_min", "mfu_evictable_data", "mru_evictable_data"} {
		if _, found := figures[name]; !found {
			return 0, fmt.Errorf("reading %s: %w: no %s", path, ErrNoReading, name)
		}
	}
	return max(0, min(figures["size"]-figures["c_min"], figures["mfu_evictable_data"]+figures["mru_evictable_data"])), nil
}
