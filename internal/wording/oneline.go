package wording

import (
	"strconv"
	"strings"
	"unicode"
)

// OneLine replaces line breaks and other control characters by their escapes: a name in a
// file may hold them, and one fault is one line, which moves no terminal's cursor.
func OneLine(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
