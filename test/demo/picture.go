package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// The picture shows the last rows of a terminal. A line appears when it was printed, but a pause is at
// most longestPause, and the end stays for a while before it begins again.
const (
	rows         = 32
	columns      = 118
	rowHeight    = 17
	columnWidth  = 78 // tenths of a pixel
	margin       = 14
	longestPause = 2500 * time.Millisecond
	endStays     = 12 * time.Second
)

// picture returns what was printed as an SVG that plays it, with CSS alone. Where that is not supported
// it shows the last rows.
func (t *terminal) picture() []byte {
	lines, length := t.paced()
	var out bytes.Buffer
	width, height := columns*columnWidth/10+2*margin, rows*rowHeight+2*margin
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="monospace" font-size="13">
<title>make demo, recorded</title>
<style>
text{fill:#d8dee9;white-space:pre}
.t{fill:#88c0d0}
#r{animation:r %.1fs step-end infinite}
@keyframes r{
`, width, height, length.Seconds())
	for i, line := range lines {
		fmt.Fprintf(&out, "%.3f%%{transform:translateY(%dpx)}\n", 100*line.at.Seconds()/length.Seconds(), (rows-1-i)*rowHeight)
	}
	fmt.Fprintf(&out, `}
</style>
<rect width="%d" height="%d" rx="6" fill="#2e3440"/>
<svg x="%d" y="%[3]d" width="%d" height="%d">
<g id="r" transform="translate(0 %d)">
`, width, height, margin, width-2*margin, rows*rowHeight, (rows-len(lines))*rowHeight)
	for i, line := range lines {
		class := ""
		if strings.HasPrefix(line.text, "[") {
			class = ` class="t"`
		}
		fmt.Fprintf(&out, `<text%s y="%d">`, class, i*rowHeight+rowHeight-4)
		_ = xml.EscapeText(&out, []byte(line.text)) // a buffer takes everything
		out.WriteString("</text>\n")
	}
	out.WriteString("</g>\n</svg>\n</svg>\n")
	return out.Bytes()
}

// paced returns the lines, wrapped, at the times of the picture, and how long that is.
func (t *terminal) paced() (lines []printed, length time.Duration) {
	before := time.Duration(0)
	for _, line := range t.kept {
		length += min(line.at-before, longestPause)
		before = line.at
		for i, part := range wrapped(line.text) {
			if i > 0 {
				part = strings.Repeat(" ", 11) + part
			}
			lines = append(lines, printed{length, part})
		}
	}
	return lines, length + endStays
}

// wrapped breaks a line between words where it is too long.
func wrapped(line string) []string {
	var parts []string
	for width := columns; len(line) > width; width = columns - 11 {
		at := strings.LastIndex(line[:width], " ")
		if strings.TrimSpace(line[:max(at, 0)]) == "" {
			at = width
		}
		parts = append(parts, line[:at])
		line = strings.TrimLeft(line[at:], " ")
	}
	return append(parts, line)
}
