package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/wording"
)

// clearScreen moves the cursor home and clears the screen and the scrollback.
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

// watchRanking shows a new frame every interval until the context ends with ^C, which is not
// a fault. A frame that fails is reported below the last good one. A failure of the first
// frame is an error, because the command was called wrongly.
func watchRanking(ctx context.Context, w io.Writer, interval time.Duration, frame func(context.Context) (string, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := ""
	for {
		text, err := frame(ctx)
		if ctx.Err() != nil {
			return nil // neither the end of the program nor what it interrupted is a fault
		}
		switch {
		case err != nil && last == "":
			return err
		case err != nil:
			text = fmt.Sprintf("%s\nThis is the last ranking that could be made. At %s it failed, and is tried again in %v:\n%s\n",
				last, time.Now().Format(time.DateTime), interval, linesOf(err))
		default:
			last = text
		}
		if err = show(w, text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// linesOf returns an error's text without control characters.
func linesOf(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, wording.OneLine(strings.TrimRight(line, "\n")))
	}
	return strings.Join(lines, "\n")
}

// show draws a frame over the last one, or below it where w is not a terminal.
func show(w io.Writer, text string) error {
	if isTerminal(w) {
		text = clearScreen + text
	} else {
		text += "\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("writing the ranking: %w", err)
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
