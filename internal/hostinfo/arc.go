package hostinfo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/internal/kernelfile"
)

// ReclaimableARC returns how much of its cache, the ARC, ZFS can give back at once, in bytes, below
// the directory at which the host's /proc is mounted; "" is /. MemAvailable counts none of it. It
// is 0 on a host without ZFS.
func ReclaimableARC(hostRoot string) (int64, error) {
	path := filepath.Join("/", hostRoot, "proc/spl/kstat/zfs/arcstats")
	content, err := os.ReadFile(path) //nolint:gosec // the root is an argument of the administrator's
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	figure := func(name string) int64 {
		n, fault := kernelfile.Stat(content, fmt.Sprintf("%-31s 4    ", name)) // a name, its type and the figure
		err = cmp.Or(err, fault)
		return n
	}
	free := min(figure("size")-figure("c_min"), figure("mfu_evictable_data")+figure("mru_evictable_data"))
	if err != nil {
		return 0, fmt.Errorf("reading what ZFS caches: %w", err)
	}
	return max(0, free), nil
}
