package pressure

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/internal/kernelfile"
)

// readCPULists returns the bytes of free pages on the kernel's per-CPU lists, beyond what these always
// keep; buffer is what it reads into. MemAvailable does not include these pages: it counts the zones' own
// lists. Since Linux 6.7 the lists grow up to an eighth of a zone's memory when an ending process frees
// much at once (mm/page_alloc.c, nr_pcp_high), and shrink by 8 MiB a second on each CPU (decay_pcp_high,
// with pages of 4 KiB). Before the kernel kills it drains them, if there was page cache to reclaim
// (__alloc_pages_direct_reclaim). An error means that the number is unknown. The kernel hands the file out in pieces, one for some NUMA nodes, so
// that one read may not have all of it.
func (o *Options) readCPULists(buffer *bytes.Buffer) (int64, error) {
	file, err := os.Open(o.host("/proc/zoneinfo"))
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // it was read
	buffer.Reset()
	if _, err = buffer.ReadFrom(file); err != nil {
		return 0, err
	}
	pages, err := kernelfile.FreeOnCPULists(buffer.Bytes())
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", file.Name(), err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// OOMKills returns how many processes the OOM killer has killed since boot, for cgroup
// limits or on the whole machine: oom_kill of /proc/vmstat (Linux 4.13). An error means that
// the number is unknown.
func OOMKills(hostRoot string) (int64, error) {
	return kernelfile.ParseOnce(filepath.Join("/", hostRoot, "proc/vmstat"), make([]byte, fileMax), func(content []byte) (int64, error) {
		return kernelfile.Stat(content, "oom_kill ")
	})
}
