package kernelfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Faults of a file's content.
var (
	// ErrNoNumber: something else is where a number should be.
	ErrNoNumber = errors.New("no number where one should be")
	// ErrOverflow: the number is more than an int64 holds, or than any machine has.
	ErrOverflow = errors.New("the number is too large")
	// ErrTruncated: the last line may have been cut off in a number.
	ErrTruncated = errors.New("the last line has no end")
)

// most is more than any machine has of anything, so that no sum of figures overflows.
const most = 1 << 56

// number reads a text that is one number. There is no sign: nothing that is read here can be negative.
func number(text []byte) (int64, error) {
	n, err := strconv.ParseUint(string(text), 10, 63) // which allocates nothing for a number
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, ErrOverflow
	case err != nil:
		return 0, ErrNoNumber
	}
	return int64(n), nil
}

// Number reads a file that holds one number and the end of its line.
func Number(content []byte) (int64, error) {
	line, ended := bytes.CutSuffix(content, []byte("\n"))
	if !ended {
		return 0, ErrTruncated
	}
	return number(line)
}

// line returns what follows key on the first line that starts with it; nil where there is none. The last
// line counts only with its end: it may have been cut off in a number.
func line(content []byte, key string) []byte {
	for {
		one, rest, ended := bytes.Cut(content, []byte("\n"))
		if !ended {
			return nil
		}
		if len(one) >= len(key) && string(one[:len(key)]) == key {
			return one[len(key):]
		}
		content = rest
	}
}

// figure returns what parse makes of the rest of the line that starts with key. More than any machine has
// is an error.
func figure(content []byte, key string, parse func(rest []byte) (int64, error)) (int64, error) {
	rest := line(content, key)
	if rest == nil {
		return 0, fmt.Errorf("no line %q", key)
	}
	n, err := parse(rest)
	if err == nil && n > most {
		err = ErrOverflow
	}
	if err != nil {
		return 0, fmt.Errorf("line %q: %w", key, err)
	}
	return n, nil
}

// Stat returns one figure of a file whose lines are written "oom_kill 12"; the key ends with
// the space.
func Stat(content []byte, key string) (int64, error) { return figure(content, key, number) }

// Meminfo returns one figure of /proc/meminfo in bytes. Lines are written
// "MemTotal:       24684096 kB" (fs/proc/meminfo.c), where kB means 1024 bytes.
func Meminfo(content []byte, key string) (int64, error) {
	return figure(content, key, func(rest []byte) (int64, error) {
		text, found := bytes.CutSuffix(rest, []byte(" kB"))
		if !found {
			return 0, fmt.Errorf("it ends in %q instead of kB", clip(rest))
		}
		n, err := number(bytes.TrimLeft(text, " "))
		return min(n, most>>9) << 10, err // no overflow, and still too large
	})
}

// HugePages returns the size of all huge pages, used or not, in bytes: the sum of
// nr_hugepages, as in the kubelet's hugepages capacity. A kernel since Linux 4.16 without
// such a line has no huge pages.
func HugePages(meminfo []byte) (int64, error) {
	if !bytes.HasSuffix(meminfo, []byte("\n")) {
		return 0, ErrTruncated
	}
	if line(meminfo, "Hugetlb:") == nil {
		return 0, nil
	}
	return Meminfo(meminfo, "Hugetlb:")
}

// StallTotal returns how long tasks have waited, in microseconds since the start of
// the machine or the making of the cgroup, from a file of pressure-stall
// information. Kind is "some" or "full"; the lines are written
// "some avg10=0.00 avg60=0.00 avg300=0.00 total=15273019"
// (Documentation/accounting/psi.rst).
func StallTotal(content []byte, kind string) (int64, error) {
	return figure(content, kind+" ", func(rest []byte) (int64, error) {
		_, total, found := bytes.Cut(rest, []byte(" total="))
		if !found {
			return 0, errors.New("no total")
		}
		return number(total)
	})
}

// Tasks returns how many tasks exist: the part after the slash in the
// fourth of the five fields of /proc/loadavg, "3.45 2.43 1.14 5/102 15213".
// Threads count, as in the kubelet's pid.available.
func Tasks(content []byte) (int64, error) {
	_, rest, _ := bytes.Cut(content, []byte("/"))
	all, _, ended := bytes.Cut(rest, []byte(" "))
	total, err := number(all)
	if err != nil || !ended || total == 0 {
		return 0, fmt.Errorf("it is %q instead of five fields, the fourth of them runnable/total", clip(content))
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
