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
// MiB a second on each CPU (decay_pcp_high, with pages of 4 KiB). Before the kernel kills it
// drains them (__alloc_pages_direct_reclaim). An error means that the number is unknown.
func FreeOnCPULists(hostRoot string) (int64, error) {
	options := Options{HostRoot: hostRoot}
	return options.readCPULists(&bytes.Buffer{})
}

// readCPULists is [FreeOnCPULists] with a buffer to read into. The kernel hands the file out
// in pieces, one for some NUMA nodes, so that one read may not have all of it.
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
	pages, err := parseZoneinfo(buffer.Bytes())
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", file.Name(), err)
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
