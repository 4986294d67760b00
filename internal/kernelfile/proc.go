package kernelfile

import (
	"bytes"
	"fmt"
	"math"
)

// Meminfo returns one figure of /proc/meminfo in bytes. Lines are written
// "MemTotal:       24684096 kB" (fs/proc/meminfo.c), where kB means 1024 bytes.
func Meminfo(content []byte, key string) (int64, error) {
	value, err := Line(content, key)
	if err != nil {
		return 0, err
	}
	n, unit, err := LeadingNumber(bytes.TrimLeft(value, " "))
	switch {
	case err != nil:
		return 0, fmt.Errorf("line %q: %w", key, err)
	case string(unit) != " kB":
		return 0, fmt.Errorf("line %q: the unit is %q instead of kB", key, clip(unit))
	case n > math.MaxInt64/1024:
		return 0, fmt.Errorf("line %q: %w", key, ErrOverflow)
	}
	return n * 1024, nil
}

// HugePages returns the size of all huge pages, used or not, in bytes: the sum of
// nr_hugepages, as in the kubelet's hugepages capacity. A kernel since Linux 4.16 without
// such a line has no huge pages.
func HugePages(meminfo []byte) (int64, error) {
	if !bytes.HasSuffix(meminfo, []byte("\n")) {
		return 0, ErrTruncated
	}
	if !bytes.Contains(meminfo, []byte("\nHugetlb:")) {
		return 0, nil
	}
	return Meminfo(meminfo, "Hugetlb:")
}

// Tasks returns how many tasks exist: the part after the slash in the
// fourth of the five fields of /proc/loadavg, "3.45 2.43 1.14 5/102 15213".
// Threads count, as in the kubelet's pid.available.
func Tasks(content []byte) (int64, error) {
	line, ended := bytes.CutSuffix(content, []byte("\n"))
	if !ended {
		return 0, ErrTruncated
	}
	space := []byte(" ")
	if fields := bytes.Count(line, space) + 1; fields != 5 {
		return 0, fmt.Errorf("%d fields instead of 5", fields)
	}
	for range 3 {
		_, line, _ = bytes.Cut(line, space)
	}
	tasks, _, _ := bytes.Cut(line, space)
	total := int64(0)
	_, rest, err := LeadingNumber(tasks)
	if err == nil && bytes.HasPrefix(rest, []byte("/")) {
		total, rest, err = LeadingNumber(rest[1:])
	}
	if err != nil || len(rest) > 0 || total == 0 {
		return 0, fmt.Errorf("the fourth field is %q instead of runnable/total", clip(tasks))
	}
	return total, nil
}

// FreeOnCPULists adds up the pages on the per-CPU lists of /proc/zoneinfo beyond what these always keep, of
// each page set `count` minus `high_min`, or `high` before Linux 6.7, from lines such as
// "count:    1301" (mm/vmstat.c, zoneinfo_show_print).
func FreeOnCPULists(content []byte) (pages int64, err error) {
	sets, count, keeps := 0, int64(0), int64(0) // the last two are of the set that is read
	for line := range bytes.Lines(content) {
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		key := string(name)
		if !found || key != "count" && key != "high" && key != "high_min" {
			continue
		}
		n, err := number(bytes.TrimSpace(value))
		switch {
		case err != nil:
			return 0, err
		case !bytes.HasSuffix(line, []byte("\n")):
			return 0, ErrTruncated
		case key == "count":
			pages += max(0, count-keeps)
			sets, count, keeps = sets+1, n, 0
		default: // high_min follows high
			keeps = n
		}
	}
	if sets == 0 {
		return 0, fmt.Errorf("no page set: %w", ErrNoNumber)
	}
	return pages + max(0, count-keeps), nil
}

// clip shortens text that an error quotes.
func clip(text []byte) []byte { return text[:min(len(text), 40)] }
