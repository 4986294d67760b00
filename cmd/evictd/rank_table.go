package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/rank"
)

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// writeReport prints the report in a format that was validated before.
func writeReport(w io.Writer, format string, r *rankReport) error {
	switch format {
	case formatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case formatYAML:
		text, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("writing the ranking as YAML: %w", err)
		}
		_, err = w.Write(text)
		return err
	default:
		return writeRankTable(w, r, format == formatWide)
	}
}

// writeRankTable prints the candidates in the order of eviction, then the protected pods.
func writeRankTable(w io.Writer, r *rankReport, wide bool) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	header := "RANK\tPOD\tQUEUE\tEXCEEDS\tPRIORITY\tEFFECTIVE\tUSAGE\tREQUEST\tOVER\tGRACE\tBUDGET\tREASON"
	if wide {
		header = "RANK\tPOD\tUID\tOWNER\tQUEUE\tEXCEEDS\tPRIORITY\tEFFECTIVE\tUSAGE\tREQUEST\tOVER\tWORKING SET\tRECLAIM\tGRACE\tBUDGET\tREASON"
	}
	rows := []string{header}
	for _, entries := range [][]rankEntry{r.Candidates, r.Protected} {
		for i := range entries {
			rows = append(rows, rankRow(r.Resource, &entries[i], wide))
		}
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(table, row); err != nil {
			return fmt.Errorf("writing the ranking: %w", err)
		}
	}
	return table.Flush()
}

func rankRow(resource string, e *rankEntry, wide bool) string {
	position := "-"
	if e.Rank > 0 {
		position = strconv.Itoa(e.Rank)
	}
	cells := []string{position, e.Namespace + "/" + e.Name}
	if wide {
		cells = append(cells, e.UID, orDash(e.Owner))
	}
	budget := budgetInWords(e.Budget)
	if !wide {
		budget = shortened(budget)
	}
	cells = append(cells,
		orDash(e.Queue), yesNo(e.Exceeds), strconv.FormatInt(int64(e.Priority), 10), strconv.FormatInt(int64(e.Effective), 10),
		amount(resource, e.Usage), amount(resource, &e.Request), amount(resource, e.Over))
	if wide {
		cells = append(cells, amount(resource, e.WorkingSet), amount(resource, e.Reclaim))
	}
	cells = append(cells,
		strconv.FormatInt(e.Grace, 10)+"s", budget, e.Reason)
	for i := range cells {
		cells[i] = wording.OneLine(cells[i])
	}
	return strings.Join(cells, "\t")
}

// shortened cuts a webhook's long text; -o wide shows all of it.
func shortened(text string) string {
	const longest = 40
	runes := []rune(text)
	if len(runes) <= longest {
		return text
	}
	return string(runes[:longest-1]) + "…"
}

// amount formats a figure for people; an unknown figure is a dash and never 0.
func amount(resource string, n *int64) string {
	switch {
	case n == nil:
		return "-"
	case resource == rank.Memory.String() || resource == rank.Disk.String():
		return rank.Bytes(*n)
	default:
		return strconv.FormatInt(*n, 10)
	}
}

// available says how much of the signal the node has left, in words.
func available(seen *sight) string {
	figures, found := seen.node.Of(seen.signal)
	if !found || figures.Available == nil || figures.Capacity == nil {
		return seen.signal.String() + " unknown"
	}
	return fmt.Sprintf("%s %s of %s", seen.signal,
		wording.Figure(seen.signal, *figures.Available), wording.Figure(seen.signal, *figures.Capacity))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
