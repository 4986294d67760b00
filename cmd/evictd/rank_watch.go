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

// clearScreen moves the cursor home and clears what is below and above it.
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

// watchRanking shows a new frame every interval until the context ends, which is no
// fault: somebody has pressed ^C. A frame that fails is said below the last good one;
// the very first may not fail, since then the command was called wrongly.
func watchRanking(ctx context.Context, w io.Writer, interval time.Duration, frame func(context.Context) (string, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := ""
	for {
		text, err := frame(ctx)
		if ctx.Err() != nil {
			return nil // the end of the program is no fault, nor is what it broke
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

// linesOf returns an error's text without what would move the cursor.
func linesOf(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, wording.OneLine(strings.TrimRight(line, "\n")))
	}
	return strings.Join(lines, "\n")
}

// show draws a frame over the last one, or below it where w is no terminal.
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
