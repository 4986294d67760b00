package pressure

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// Faults of a file's content.
var (
	errNoNumber  = errors.New("no number where one should be")
	errOverflow  = errors.New("the number is too large")
	errTruncated = errors.New("the last line has no end")
	errTrailing  = errors.New("more than a number")
)

// leadingNumber reads the decimal digits that text starts with and returns what
// follows them. There is no sign: nothing that is read here can be negative.
func leadingNumber(text []byte) (n int64, rest []byte, err error) {
	i := 0
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		digit := int64(text[i] - '0')
		if n > (math.MaxInt64-digit)/10 {
			return 0, nil, errOverflow
		}
		n = n*10 + digit
		i++
	}
	if i == 0 {
		return 0, nil, errNoNumber
	}
	return n, text[i:], nil
}

// lineAfter returns what follows key on the first line that starts with it. The
// last line counts only with its end: it may have been cut off in a number.
func lineAfter(content []byte, key string) ([]byte, error) {
	for len(content) > 0 {
		end := bytes.IndexByte(content, '\n')
		if end < 0 {
			break
		}
		if line := content[:end]; len(line) >= len(key) && string(line[:len(key)]) == key {
			return line[len(key):], nil
		}
		content = content[end+1:]
	}
	return nil, fmt.Errorf("no line %q", key)
}

// parseMeminfo returns one figure of /proc/meminfo in bytes. Lines are written
// "MemTotal:       24684096 kB" (fs/proc/meminfo.c), where kB means 1024 bytes.
func parseMeminfo(content []byte, key string) (int64, error) {
	value, err := lineAfter(content, key)
	if err != nil {
		return 0, err
	}
	n, unit, err := leadingNumber(bytes.TrimLeft(value, " "))
	switch {
	case err != nil:
		return 0, fmt.Errorf("line %q: %w", key, err)
	case string(unit) != " kB":
		return 0, fmt.Errorf("line %q: the unit is %q instead of kB", key, clip(unit))
	case n > math.MaxInt64/1024:
		return 0, fmt.Errorf("line %q: %w", key, errOverflow)
	}
	return n * 1024, nil
}

// parseStat returns one figure of a memory.stat, whose lines are written
// "inactive_file 94208".
func parseStat(content []byte, key string) (int64, error) {
	value, err := lineAfter(content, key)
	if err != nil {
		return 0, err
	}
	n, rest, err := leadingNumber(value)
	if err == nil && len(rest) > 0 {
		err = errTrailing
	}
	if err != nil {
		return 0, fmt.Errorf("line %q: %w", key, err)
	}
	return n, nil
}

// parseNumber reads a file that holds one number and the end of its line.
func parseNumber(content []byte) (int64, error) {
	n, rest, err := leadingNumber(content)
	switch {
	case err != nil:
		return 0, err
	case len(rest) == 0:
		return 0, errTruncated
	case string(rest) != "\n":
		return 0, errTrailing
	}
	return n, nil
}

// parseLoadavg returns how many tasks exist: the part after the slash in the
// fourth of the five fields of /proc/loadavg, "3.45 2.43 1.14 5/102 15213".
// Threads count, as in the kubelet's pid.available.
func parseLoadavg(content []byte) (int64, error) {
	if !bytes.HasSuffix(content, []byte("\n")) {
		return 0, errTruncated
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
	_, rest, err := leadingNumber(tasks)
	if err != nil || len(rest) == 0 || rest[0] != '/' {
		return 0, fmt.Errorf("the fourth field is %q instead of runnable/total", clip(tasks))
	}
	total, rest, err := leadingNumber(rest[1:])
	if err != nil || len(rest) > 0 || total == 0 {
		return 0, fmt.Errorf("the fourth field is %q instead of runnable/total", clip(tasks))
	}
	return total, nil
}

// clip shortens what an error quotes.
func clip(text []byte) []byte { return text[:min(len(text), 40)] }
