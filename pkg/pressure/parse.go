package pressure

import (
	"bytes"
	"fmt"
	"math"

	"github.com/evictd/evictd/internal/kernelfile"
)

// parseMeminfo returns one figure of /proc/meminfo in bytes. Lines are written
// "MemTotal:       24684096 kB" (fs/proc/meminfo.c), where kB means 1024 bytes.
func parseMeminfo(content []byte, key string) (int64, error) {
	value, err := kernelfile.Line(content, key)
	if err != nil {
		return 0, err
	}
	n, unit, err := kernelfile.LeadingNumber(bytes.TrimLeft(value, " "))
	switch {
	case err != nil:
		return 0, fmt.Errorf("line %q: %w", key, err)
	case string(unit) != " kB":
		return 0, fmt.Errorf("line %q: the unit is %q instead of kB", key, clip(unit))
	case n > math.MaxInt64/1024:
		return 0, fmt.Errorf("line %q: %w", key, kernelfile.ErrOverflow)
	}
	return n * 1024, nil
}

// parseHugePages returns the size of all huge pages, used or not, in bytes: the sum of
// nr_hugepages, as in the kubelet's hugepages capacity. A kernel since Linux 4.16 without
// such a line has no huge pages.
func parseHugePages(meminfo []byte) (int64, error) {
	if !bytes.HasSuffix(meminfo, []byte("\n")) {
		return 0, kernelfile.ErrTruncated
	}
	if !bytes.Contains(meminfo, []byte("\nHugetlb:")) {
		return 0, nil
	}
	return parseMeminfo(meminfo, "Hugetlb:")
}

// parseLoadavg returns how many tasks exist: the part after the slash in the
// fourth of the five fields of /proc/loadavg, "3.45 2.43 1.14 5/102 15213".
// Threads count, as in the kubelet's pid.available.
func parseLoadavg(content []byte) (int64, error) {
	if !bytes.HasSuffix(content, []byte("\n")) {
		return 0, kernelfile.ErrTruncated
	}
	const fieldCount, tasksField = 5, 3
	index := 0
	var tasks []byte
	for field := range bytes.SplitSeq(content[:len(content)-1], []byte(" ")) {
		if index == tasksField {
			tasks = field
		}
		index++
	}
	if index != fieldCount {
		return 0, fmt.Errorf("%d fields instead of %d", index, fieldCount)
	}
	_, rest, err := kernelfile.LeadingNumber(tasks)
	if err != nil || len(rest) == 0 || rest[0] != '/' {
		return 0, fmt.Errorf("the fourth field is %q instead of runnable/total", clip(tasks))
	}
	total, rest, err := kernelfile.LeadingNumber(rest[1:])
	if err != nil || len(rest) > 0 || total == 0 {
		return 0, fmt.Errorf("the fourth field is %q instead of runnable/total", clip(tasks))
	}
	return total, nil
}

// clip shortens text that an error quotes.
func clip(text []byte) []byte { return text[:min(len(text), 40)] }
