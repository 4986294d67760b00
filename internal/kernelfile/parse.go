package kernelfile

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// Faults of a file's content.
var (
	// ErrNoNumber: no digit is where a number should be.
	ErrNoNumber = errors.New("no number where one should be")
	// ErrOverflow: the number is more than an int64 holds, or than any machine has.
	ErrOverflow = errors.New("the number is too large")
	// ErrTruncated: the last line may have been cut off in a number.
	ErrTruncated = errors.New("the last line has no end")
	// ErrTrailing: something follows the number.
	ErrTrailing = errors.New("more than a number")
)

// LeadingNumber reads the decimal digits that text starts with and returns what
// follows them. There is no sign: nothing that is read here can be negative.
func LeadingNumber(text []byte) (n int64, rest []byte, err error) {
	i := 0
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		digit := int64(text[i] - '0')
		if n > (math.MaxInt64-digit)/10 {
			return 0, nil, ErrOverflow
		}
		n = n*10 + digit
		i++
	}
	if i == 0 {
		return 0, nil, ErrNoNumber
	}
	return n, text[i:], nil
}

// Number reads a file that holds one number and the end of its line.
func Number(content []byte) (int64, error) {
	line, rest, ended := bytes.Cut(content, []byte("\n"))
	n, err := number(line)
	switch {
	case err != nil:
		return 0, err
	case !ended:
		return 0, ErrTruncated
	case len(rest) > 0:
		return 0, ErrTrailing
	}
	return n, nil
}

// number reads a text that is one number.
func number(text []byte) (int64, error) {
	n, rest, err := LeadingNumber(text)
	if err == nil && len(rest) > 0 {
		return 0, ErrTrailing
	}
	return n, err
}

// Line returns what follows key on the first line that starts with it. The
// last line counts only with its end: it may have been cut off in a number.
func Line(content []byte, key string) ([]byte, error) {
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

// Stat returns one figure of a file whose lines are written "oom_kill 12"; the key ends with
// the space.
func Stat(content []byte, key string) (int64, error) {
	value, err := Line(content, key)
	if err != nil {
		return 0, err
	}
	n, err := number(value)
	if err != nil {
		return 0, fmt.Errorf("line %q: %w", key, err)
	}
	return n, nil
}

// StallTotal returns how long tasks have waited, in microseconds since the start of
// the machine or the making of the cgroup, from a file of pressure-stall
// information. Kind is "some" or "full"; the lines are written
// "some avg10=0.00 avg60=0.00 avg300=0.00 total=15273019"
// (Documentation/accounting/psi.rst).
func StallTotal(content []byte, kind string) (int64, error) {
	averages, err := Line(content, kind+" ")
	if err != nil {
		return 0, err
	}
	const last = " total="
	at := bytes.LastIndex(averages, []byte(last))
	if at < 0 {
		return 0, fmt.Errorf("line %q: no total", kind)
	}
	n, err := number(averages[at+len(last):])
	if err != nil {
		return 0, fmt.Errorf("line %q: %w", kind, err)
	}
	return n, nil
}
