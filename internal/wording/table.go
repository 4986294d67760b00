package wording

import (
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Columns is how wide a table for people is at most, but for names, which stay whole.
const Columns = 120

// Table writes rows of cells, each on one line, in columns; a row without cells is an empty line, and ends a table. The
// last cell of a row is wrapped at so many columns, 0 for none: below where it begins or, where less than a fifth is
// left for it, below its row.
func Table(w io.Writer, columns int, rows [][]string) error {
	var begin, text strings.Builder
	table := tabwriter.NewWriter(&begin, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		for _, cell := range row[:max(0, len(row)-1)] {
			_, _ = io.WriteString(table, OneLine(cell)+"\t") // to memory
		}
		_, _ = io.WriteString(table, "\n")
	}
	_ = table.Flush()
	for i, line := range strings.Split(strings.TrimSuffix(begin.String(), "\n"), "\n") {
		last := OneLine(strings.Join(rows[i][max(0, len(rows[i])-1):], ""))
		at := utf8.RuneCountInString(line)
		if left := columns - at; columns > 0 && left < columns/5 && utf8.RuneCountInString(last) > max(left, 0) {
			text.WriteString(strings.TrimRight(line, " ") + "\n")
			line, at = "      ", 6
		}
		line += strings.Join(wrap(last, columns-at), "\n"+strings.Repeat(" ", at))
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// wrap breaks a text into lines of so many characters, at spaces where they have one; 0 or less leaves it whole.
func wrap(text string, width int) []string {
	var lines []string
	rest := []rune(text)
	for width > 0 && len(rest) > width {
		end, next := width, width
		for i, r := range rest[:width+1] {
			if r == ' ' && i > 0 {
				end, next = i, i+1
			}
		}
		lines, rest = append(lines, string(rest[:end])), rest[next:]
	}
	return append(lines, string(rest))
}
