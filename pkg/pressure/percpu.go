package pressure

import (
	"bytes"
	"fmt"
	"os"

	"github.com/evictd/evictd/internal/kernelfile"
)

// FreeOnCPULists returns the bytes of free pages on the kernel's per-CPU lists, beyond what
// these always keep: of each page set in /proc/zoneinfo `count` minus `high_min`, or `high`
// before Linux 6.7. These pages are free, but MemAvailable does not include them: it counts
// the zones' own lists. Since Linux 6.7 the lists grow up to an eighth of a zone's memory
// when an ending process frees much at once (mm/page_alloc.c, nr_pcp_high), and shrink by 8
// MiB a second on each CPU (decay_pcp_high, with pages of 4 KiB). An error means that the
// number is unknown.
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

// pageSet is a CPU's page list of a zone: its pages, and how many of these it always keeps.
type pageSet struct{ count, keeps int64 }

// parseZoneinfo adds up the pages of the page sets beyond what they keep, from lines such as
// "count:    1301" (mm/vmstat.c, zoneinfo_show_print).
func parseZoneinfo(content []byte) (pages int64, err error) {
	var set pageSet
	sets := 0
	for line := range bytes.Lines(content) {
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		key := string(name)
		if !found || key != "count" && key != "high" && key != "high_min" {
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
		case key == "count":
			pages += set.beyond()
			set, sets = pageSet{count: n}, sets+1
		default: // high_min follows high
			set.keeps = n
		}
	}
	if sets == 0 {
		return 0, fmt.Errorf("no page set: %w", kernelfile.ErrNoNumber)
	}
	return pages + set.beyond(), nil
}

func (s pageSet) beyond() int64 { return max(0, s.count-s.keeps) }
