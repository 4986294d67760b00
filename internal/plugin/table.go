package plugin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// writeTable prints a line for each answer, and nothing where there is none.
func writeTable(w io.Writer, answers []*answer) error {
	if len(answers) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	rows := [][]string{{"NODE", "MODE", "PRESSURE", "NEAREST THRESHOLD", "LAST EVICTION", "LAST TICK", "VERSION"}}
	for _, a := range answers {
		rows = append(rows, []string{a.node, a.mode(), a.pressure(), a.nearest(), a.lastEviction(), a.lastTick(), a.version()})
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(table, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// isTerminal reports whether somebody watches.
func isTerminal(w io.Writer) bool {
	file, is := w.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}
