package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/evictd/evictd/internal/doctor"
)

// doctorWidth is how wide the table is at most, in columns.
const doctorWidth = 120

// writeFindings prints the findings in a format that was validated before.
func writeFindings(w io.Writer, format string, findings []doctor.Finding) error {
	if format == formatJSON {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(findings)
	}
	names, states := len("CHECK"), len("STATE")
	for i := range findings {
		names, states = max(names, len(findings[i].Name)), max(states, len(findings[i].State))
	}
	var text strings.Builder
	row := func(name, state string, paragraphs ...string) {
		const gap = 2
		left := names + gap + states + gap
		for _, line := range wrapped(doctorWidth-left, paragraphs) {
			fmt.Fprintln(&text, strings.TrimRight(fmt.Sprintf("%-*s  %-*s  %s", names, name, states, state, line), " "))
			name, state = "", ""
		}
	}
	row("CHECK", "STATE", "FOUND")
	for i := range findings {
		f := &findings[i]
		row(f.Name, string(f.State), f.Found, labelled("then: ", f.Follows), labelled("do:   ", f.Do))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// labelled puts a label before a text; "" stays "".
func labelled(label, text string) string {
	if text == "" {
		return ""
	}
	return label + text
}

// wrapped breaks paragraphs into lines of at most that many columns, where words allow it, and
// leaves out empty ones.
func wrapped(width int, paragraphs []string) []string {
	var lines []string
	for _, paragraph := range paragraphs {
		line := ""
		for word := range strings.SplitSeq(paragraph, " ") {
			for utf8.RuneCountInString(word) > width { // a path, or a server's text without spaces
				if line != "" {
					lines, line = append(lines, line), ""
				}
				runes := []rune(word)
				lines, word = append(lines, string(runes[:width])), string(runes[width:])
			}
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
				line += " " + word
			default:
				lines, line = append(lines, line), word
			}
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
