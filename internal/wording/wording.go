// Package wording holds what messages need wherever they are written: other people's text on one
// line, the one way to write an amount of a signal, and tables.
package wording

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Amount returns an amount of a signal for people, with its unit.
func Amount(signal pressure.Signal, n int64) string {
	if signal.Unit() == pressure.Bytes {
		return rank.Bytes(n)
	}
	return strconv.FormatInt(n, 10) + " " + string(signal.Unit())
}

// Figure is Amount where the unit follows, or is plain.
func Figure(signal pressure.Signal, n int64) string {
	return strings.TrimSuffix(Amount(signal, n), " "+string(signal.Unit()))
}

// Apart says by how much two amounts of a signal differ that read the same when they are
// rounded, in parentheses after a space; "" where they are equal or read differently.
// First is the one that is named first.
func Apart(signal pressure.Signal, first, second int64) string {
	switch {
	case first == second || Amount(signal, first) != Amount(signal, second):
		return ""
	case first < second:
		return " (" + Amount(signal, second-first) + " less)"
	default:
		return " (" + Amount(signal, first-second) + " more)"
	}
}

// Few names the first three, and says with dots that there are more.
func Few(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// OneLine replaces line breaks and other control characters by their escapes: a name in a
// file may hold them, and one fault is one line, which moves no terminal's cursor.
func OneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// Shorten cuts a text to so many bytes, between characters. The end of one that is cut says so by dots.
func Shorten(text string, limit int) string {
	const more = "..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}
