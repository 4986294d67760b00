package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

func newDoctorCommand() *cobra.Command {
	var flags runFlags
	var output string
	const short = "Check what evictd needs on its node and at the API server: exit 0, or 1 where something is missing"
	cmd := newCommand("doctor --node-name NAME [--config FILE]", short, func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), checksTimeout)
		defer cancel()
		results := checks.Run(ctx, flags.examine(), checks.All)
		if err := writeResults(cmd.OutOrStdout(), output, results); err != nil {
			return err
		}
		if !checks.Sound(results) {
			return errReported
		}
		return nil
	})
	flags.add(cmd, false)
	addChoice(cmd, &output, "output", "o", formatTable, formatJSON)
	return cmd
}

// examine reads the node as `evictd run` with these flags would. Where there is no file, or it is refused, the
// checks are those of the default configuration.
func (f *runFlags) examine() *checks.Inputs {
	c, refused := config.Default(), error(nil)
	if f.config != "" {
		if c, refused = loadConfig(f.config); refused != nil {
			c = config.Default()
		}
	}
	h := &host{flags: f}
	noPods := h.openPods()
	in := f.inputs(c, h)
	in.Refused, in.NoPods, in.Kubepods = refused, noPods, h.kubepods
	if noPods == nil {
		defer h.tree.Close() //nolint:errcheck // only files that were read
		pods, unread := h.tree.Collect(nil, nil)
		in.Pods, in.UnreadPods = len(pods), unread
	}
	wakers := pressure.OpenWakers(f.hostRoot, h.kubepods)
	defer wakers.Close() //nolint:errcheck // triggers end with the process
	in.Wakes = wakers.States()
	return in
}

// writeResults prints the results in a format.
func writeResults(w io.Writer, format string, results []checks.Result) error {
	if format == formatJSON {
		return writeJSON(w, results)
	}
	rows := [][]string{{"CHECK", "STATE", "FOUND"}}
	for i := range results {
		r := &results[i]
		rows = append(rows, []string{r.Name, string(r.State), r.Found})
		if r.State != checks.OK {
			rows = append(rows, []string{"", "", "then:", r.Follows}, []string{"", "", "do:", r.Do})
		}
	}
	return wording.Table(w, wording.Columns, rows)
}
