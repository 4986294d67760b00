package main

import (
	"fmt"
	"os"

	"github.com/evictd/evictd/test/internal/measure"
)

// paper prints the slopes, and what they come to for clusters that this machine cannot run.
func (b *bench) paper(slopes []slope, start syncCost) error {
	sizes := []float64{1000, 5000, 15000}
	header := []string{"what", "each agent", "residual of the line"}
	for _, n := range sizes {
		header = append(header, fmt.Sprintf("%.0f agents", n))
	}
	var rows [][]string
	for _, one := range slopes {
		row := []string{one.name, fmt.Sprintf("%.4f", one.line.Slope), fmt.Sprintf("%.2f", one.line.Residual)}
		for _, n := range sizes {
			row = append(row, fmt.Sprintf("%.1f", n*one.line.Slope))
		}
		rows = append(rows, row)
	}
	if start.pods > 0 {
		rows = append(rows, start.paper(sizes)...)
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Println("\nslopes by least squares over the numbers of agents above, and on paper for larger clusters")
	fmt.Println()
	return measure.Table(os.Stdout, header, rows)
}

// paper returns the rows of a start of all agents.
func (start *syncCost) paper(sizes []float64) [][]string {
	const milli = 1000
	row := []string{fmt.Sprintf("all agents start: API server CPU s (%d pods a node)", start.pods), fmt.Sprintf("%.4f", start.cpu/milli), ""}
	bytes := []string{fmt.Sprintf("all agents start: MiB to the agents (%d pods a node)", start.pods), fmt.Sprintf("%.4f", mebibytes(start.received)), ""}
	for _, n := range sizes {
		row = append(row, fmt.Sprintf("%.1f", n*start.cpu/milli))
		bytes = append(bytes, fmt.Sprintf("%.0f", n*mebibytes(start.received)))
	}
	return [][]string{row, bytes}
}
