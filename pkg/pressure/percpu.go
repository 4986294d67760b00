package pressure

import (
	"bytes"
	"fmt"
	"os"

	"github.com/evictd/evictd/internal/kernelfile"
)

// FreeOnCPULists returns the bytes of free pages that wait on the kernel's per-CPU lists: the
// sum of `count` of all page sets in /proc/zoneinfo. MemAvailable does not hold them, although
// they are free: it counts the zones' own lists. Since Linux 6.7 the lists grow by themselves to
// an eighth of a zone's memory when a process that ends gives back much at once
// (mm/page_alloc.c, nr_pcp_high), and shrink by 8 MiB a second on
// each CPU (decay_pcp_high, with pages of 4 KiB). An error means that the number is not known.
func FreeOnCPULists(hostRoot string) (int64, error) {
	options := Options{HostRoot: hostRoot}
	path := options.host("/proc/zoneinfo")
	content, err := os.ReadFile(path) //nolint:gosec // the kernel's file
	if err != nil {
		return 0, err
	}
	pages, err := parseZoneinfo(content)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// parseZoneinfo adds up the lines "count:    1301" (mm/vmstat.c, zoneinfo_show_print).
func parseZoneinfo(content []byte) (pages int64, err error) {
	sets := 0
	for line := range bytes.Lines(content) {
		value, found := bytes.CutPrefix(bytes.TrimSpace(line), []byte("count:"))
		if !found {
			continue
		}
		n, rest, err := kernelfile.LeadingNumber(bytes.TrimSpace(value))
		switch {
		case err != nil:
			return 0, err
		case len(rest) > 0:
			return 0, kernelfile.ErrTrailing
		case !bytes.HasSuffix(line, []byte("\n")):
			return 0, kernelfile.ErrTruncated
		}
		pages, sets = pages+n, sets+1
	}
	if sets == 0 {
		return 0, fmt.Errorf("no page set: %w", kernelfile.ErrNoNumber)
	}
	return pages, nil
}
