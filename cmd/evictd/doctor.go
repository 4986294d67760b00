package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// doctorWidth is how wide the table is at most, in columns.
const doctorWidth = 120

// doctorFlags are the flags of `evictd doctor`: those of `evictd run` that say where things are.
type doctorFlags struct {
	runFlags

	output string
}

func newDoctorCommand() *cobra.Command {
	flags := doctorFlags{output: formatTable}
	const short = "Check what evictd needs on its node and at the API server: exit 0, or 1 where something is missing"
	cmd := newCommand("doctor --node-name NAME [--config FILE]", short, func(cmd *cobra.Command) error {
		return flags.run(cmd.Context(), cmd.OutOrStdout())
	})
	flags.add(cmd)
	cmd.Flags().Lookup("config").Usage = "the configuration file; the defaults when left out"
	addChoice(cmd, &flags.output, "output", "o", "table or json", formatTable, formatJSON)
	return cmd
}

// run executes the command with its flags.
func (f *doctorFlags) run(ctx context.Context, w io.Writer) error {
	if err := f.checkNodeName(); err != nil {
		return usageError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, checksTimeout)
	defer cancel()
	results := checks.Run(ctx, f.inputs(), checks.All)
	if err := writeResults(w, f.output, results); err != nil {
		return err
	}
	if !checks.Sound(results) {
		return exitError{exitFault, nil}
	}
	return nil
}

// inputs reads the node as `evictd run` with these flags would. Where there is no file, or it is refused, the
// checks are those of the default configuration.
func (f *doctorFlags) inputs() *checks.Inputs {
	c, refused := config.Default(), error(nil)
	if f.config != "" {
		if c, refused = f.load(); refused != nil {
			c = config.Default()
		}
	}
	h, followed := &host{flags: &f.runFlags}, &checks.Followed{KubeletNamed: f.kubeletConfig != ""}
	if followed.NoPods = h.openPods(); followed.NoPods == nil {
		defer h.tree.Close() //nolint:errcheck // only files that were read
		countPods(h, followed)
	}
	wakers := pressure.OpenWakers(f.hostRoot, h.kubepods)
	defer wakers.Close() //nolint:errcheck // triggers end with the process
	followed.Wakes = wakers.States()
	in, sample := f.runFlags.inputs(c, h)
	in.Refused, in.Followed = refused, followed
	f.compare(followed, c, h, sample)
	return in
}

func countPods(h *host, followed *checks.Followed) {
	pods, err := h.tree.Collect(nil)
	followed.Kubepods, followed.Pods, followed.UnreadPods = h.kubepods, len(pods), err
	if _, some := errors.AsType[*usage.UnreadError](err); err != nil && !some {
		followed.NoPods = err
	}
}

// compare compares the thresholds with the kubelet's.
func (f *doctorFlags) compare(followed *checks.Followed, c *config.EvictdConfiguration, h *host, sample *pressure.Sample) {
	followed.Kubelet, followed.NoKubelet = f.readKubelet()
	if followed.NoKubelet == nil {
		followed.Compared = h.compareThresholds(c, followed.Kubelet, sample)
	}
}

// writeResults prints the results in a format.
func writeResults(w io.Writer, format string, results []checks.Result) error {
	if format == formatJSON {
		return writeJSON(w, results)
	}
	names, states := len("CHECK"), len("STATE")
	for i := range results {
		names, states = max(names, len(results[i].Name)), max(states, len(results[i].State))
	}
	var text strings.Builder
	row := func(name, state, paragraph string) {
		for _, line := range wrapped(doctorWidth-names-states-len("    "), paragraph) {
			fmt.Fprintf(&text, "%-*s  %-*s  %s\n", names, name, states, state, line)
			name, state = "", ""
		}
	}
	row("CHECK", "STATE", "FOUND")
	for i := range results {
		r := &results[i]
		row(r.Name, string(r.State), r.Found)
		if r.State != checks.OK {
			row("", "", "then: "+r.Follows)
			row("", "", "do:   "+r.Do)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// wrapped breaks a text into lines of at most that many columns, where words allow it.
func wrapped(width int, text string) (lines []string) {
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		line = word
		for runes := []rune(line); len(runes) > width; runes = []rune(line) { // a path, or a server's text without spaces
			lines, line = append(lines, string(runes[:width])), string(runes[width:])
		}
	}
	return append(lines, line)
}
