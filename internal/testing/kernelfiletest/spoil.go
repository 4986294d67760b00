package kernelfiletest

import (
	"os"
	"strings"
	"testing"
)

// Spoil replaces the good file at a path by one that cannot be read or is not valid.
type Spoil func(tb testing.TB, path string)

// With spoils a file by other content.
func With(content string) Spoil {
	return func(tb testing.TB, path string) { tb.Helper(); Put(tb, path, content) }
}

// Spoils are the ways in which every file of the kernel's can be at fault, by name. A
// missing one is not among them: to some readers it says something.
func Spoils() map[string]Spoil {
	return map[string]Spoil{
		"input/output error":  unreadable,
		"cut off in a number": edit(func(good string) string { return good[:strings.IndexAny(good, digits)+1] }),
		"negative":            edit(negated),
		"huge":                edit(func(good string) string { return strings.Repeat(good, 1+(1<<20)/len(good)) }),
		"directory":           With(Directory),
		"empty":               With(""),
		"newline":             With("\n"),
		"NUL bytes":           With(strings.Repeat("\x00", 200)),
		"overflow":            With("99999999999999999999\n"),
	}
}

const digits = "0123456789"

// unreadable puts a file in the place on whose first page the kernel answers EIO: a
// process's memory, where nothing is mapped.
func unreadable(tb testing.TB, path string) {
	tb.Helper()
	Remove(tb, path)
	if err := os.Symlink("/proc/self/mem", path); err != nil {
		tb.Fatal(err)
	}
}

func edit(change func(good string) string) Spoil {
	return func(tb testing.TB, path string) {
		tb.Helper()
		good, err := os.ReadFile(path) //nolint:gosec // a test's own
		if err != nil {
			tb.Fatal(err)
		}
		Put(tb, path, change(string(good)))
	}
}

// negated puts a minus before every number.
func negated(text string) string {
	var b strings.Builder
	inNumber := false
	for _, r := range text {
		digit := strings.ContainsRune(digits, r)
		if digit && !inNumber {
			b.WriteByte('-')
		}
		inNumber = digit
		b.WriteRune(r)
	}
	return b.String()
}
