package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// terminal prints what happens, and keeps it with the times.
type terminal struct {
	started time.Time
	to      io.Writer
	scenes  int // shown so far
	kept    []printed
}

// printed is a line and when it was printed, from the start on.
type printed struct {
	at   time.Duration
	text string
}

// scene prints the title of the next scene and how long it takes.
func (t *terminal) scene(takes time.Duration, title string) {
	t.scenes++
	t.say("%d/%d %s (about %d s)", t.scenes, len(scenes())+1, title, int(takes.Seconds()))
}

// say prints a sentence with the time since the start.
func (t *terminal) say(format string, arguments ...any) {
	t.print("")
	t.print(fmt.Sprintf("[%5.1fs] %s", time.Since(t.started).Seconds(), fmt.Sprintf(format, arguments...)))
}

// show prints a tool's output, indented.
func (t *terminal) show(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		t.print("         " + strings.TrimRight(line, " \n"))
	}
}

func (t *terminal) print(line string) {
	t.kept = append(t.kept, printed{time.Since(t.started), line})
	_, _ = fmt.Fprintln(t.to, line) // a terminal that has gone must not fail the demo
}
