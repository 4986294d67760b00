package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// standardStream is the file name that means stdin or stdout.
const standardStream = "-"

// rankFlags are the flags of `evictd rank`.
type rankFlags struct {
	address, signal, output, why, save, snapshot, config string
}

func newRankCommand() *cobra.Command {
	flags := rankFlags{output: formatTable}
	cmd := newCommand("rank [--snapshot FILE]", "Print which pod the evictd of this pod would evict first now, and why; evicts no pod", flags.run)
	f := cmd.Flags()
	addAddress(f, &flags.address)
	f.StringVar(&flags.signal, "signal", pressure.MemoryAvailable.String(), "the signal to rank for")
	addChoice(cmd, &flags.output, "output", "o", "table, wide, json or yaml", formatTable, formatWide, formatJSON, formatYAML)
	f.StringVar(&flags.why, "why", "", "explain the place of one pod, NAMESPACE/POD, instead of the table")
	f.StringVar(&flags.save, "save", "", "write evictd's document to a new file; - writes it to stdout instead of the ranking")
	f.StringVar(&flags.snapshot, "snapshot", "", "rank a saved document, without a cluster; - reads it from stdin")
	f.StringVar(&flags.config, "config", "", "with --snapshot, rank by this configuration file")
	complete(cmd, "why")
	complete(cmd, "signal", signalNames()...)
	return cmd
}

// signalNames returns the names of the signals.
func signalNames() (names []string) {
	for _, signal := range pressure.Signals() {
		names = append(names, signal.String())
	}
	return names
}

// run executes the command with its flags.
func (f *rankFlags) run(cmd *cobra.Command) error {
	signal, err := f.check(cmd.Flags().Changed)
	if err != nil {
		return usageError(err)
	}
	d, text, err := f.open(cmd, signal.OnDisk() || f.save != "")
	if err != nil {
		return err
	}
	d.Rank(signal)
	for _, note := range []string{d.PodsUnknown, d.UsageUnread} {
		if note != "" {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "evictd: %s\n", wording.OneLine(note)) // the last place to report to
		}
	}
	return f.answer(cmd.OutOrStdout(), d, text, signal)
}

// check rejects obvious mistakes, before anything is opened. Changed reports whether a flag was given.
func (f *rankFlags) check(changed func(string) bool) (pressure.Signal, error) {
	namespace, name, _ := strings.Cut(f.why, "/")
	noPod := namespace == "" || name == "" || strings.Contains(name, "/")
	both := func(one, other string) bool { return changed(one) && changed(other) }
	empty := func(flag, value string) bool { return changed(flag) && value == "" }
	for _, mistake := range []struct {
		is   bool
		text string
	}{
		{both("snapshot", "http-bind-address"), "--snapshot and --http-bind-address do not go together: no evictd is asked"},
		{both("snapshot", "save"), "--snapshot and --save do not go together: it is saved already: copy the file"},
		{both("why", "output"), "--why and --output do not go together: the story is prose; leave --output out"},
		{changed("config") && f.snapshot == "", "--config is for --snapshot: a running evictd ranks by its own configuration"},
		{changed("why") && noPod, fmt.Sprintf("--why %q: write NAMESPACE/POD", f.why)},
		{empty("save", f.save), "--save is empty: name a file, or - for stdout"},
		{empty("snapshot", f.snapshot), "--snapshot is empty: name a file, or - for stdin"},
		{
			f.save == standardStream && (changed("output") || changed("why")),
			"--save - writes the document to stdout and no ranking: leave --output and --why out, or name a file",
		},
	} {
		if mistake.is {
			return 0, errors.New(mistake.text)
		}
	}
	signal, err := pressure.ParseSignal(f.signal)
	if err != nil {
		return 0, fmt.Errorf("--signal: %w", err)
	}
	return signal, nil
}

// open returns the document to rank, with the pods' disk use if it is to have that, and its text where the running
// evictd made it.
func (f *rankFlags) open(cmd *cobra.Command, disk bool) (*status.Document, []byte, error) {
	if f.snapshot == "" {
		return askStatus(cmd.Context(), f.address, disk)
	}
	file := cmd.InOrStdin()
	if f.snapshot != standardStream {
		opened, err := os.Open(f.snapshot)
		if err != nil {
			return nil, nil, fmt.Errorf("--snapshot: %w", err)
		}
		defer opened.Close() //nolint:errcheck // it was read
		file = opened
	}
	d, err := status.Read(file)
	if err == nil && f.config != "" {
		err = f.replaceConfiguration(d)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--snapshot %s: %w", f.snapshot, err)
	}
	return d, nil, nil
}

// replaceConfiguration puts the file in place of the configuration in a document, to see what would
// change with it.
func (f *rankFlags) replaceConfiguration(d *status.Document) error {
	loaded, err := config.Load(f.config)
	if err != nil {
		return fmt.Errorf("loading --config %s: %w", f.config, err)
	}
	for _, key := range loaded.LabelKeys() {
		if !slices.Contains(d.Configuration.LabelKeys(), key) {
			return fmt.Errorf("--config %s: a selector reads the label %q, and an agent keeps only labels that its own configuration reads: run one with that configuration", f.config, key)
		}
	}
	d.Configuration = loaded
	return nil
}

// answer saves and prints what was asked for.
func (f *rankFlags) answer(w io.Writer, d *status.Document, text []byte, signal pressure.Signal) error {
	switch {
	case f.save == standardStream:
		_, err := io.Copy(w, bytes.NewReader(text))
		return err
	case f.save != "":
		if err := status.Save(f.save, text); err != nil {
			return fmt.Errorf("--save %s: %w", f.save, err)
		}
	}
	switch {
	case f.why != "":
		return d.WriteWhy(w, signal, f.why)
	case d.Ranking == nil:
		return errors.New(d.Unranked)
	case f.output == formatJSON:
		return writeJSON(w, d.Ranking)
	case f.output == formatYAML:
		written, err := yaml.Marshal(d.Ranking)
		if err != nil {
			return fmt.Errorf("writing the ranking as YAML: %w", err)
		}
		_, err = w.Write(written)
		return err
	default:
		return d.Ranking.WriteTable(w, f.output == formatWide)
	}
}
