package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// standardStream is the file name that means stdin or stdout.
const standardStream = "-"

// rankFlags are the flags of `evictd rank`.
type rankFlags struct {
	address, output, why, save, snapshot, config, at, record string
	signal                                                   pressure.Signal
}

func newRankCommand() *cobra.Command {
	flags := rankFlags{signal: pressure.MemoryAvailable}
	cmd := newCommand("rank [--snapshot FILE]", "Print which pod the evictd of this pod would evict first now, and why; evicts no pod", flags.run)
	cmd.PreRunE = func(*cobra.Command, []string) error { return flags.check() }
	f := cmd.Flags()
	addDebugAddress(cmd, &flags.address, "where evictd serves its document")
	f.Func("signal", "the `signal` to rank for; memory.available when left out", func(name string) (err error) {
		flags.signal, err = pressure.ParseSignal(name)
		return err
	})
	addChoice(cmd, &flags.output, "output", "o", formatTable, formatWide, formatJSON, formatYAML)
	f.StringVar(&flags.why, "why", "", "explain the place of one pod, `NAMESPACE/POD`, instead of the table")
	f.StringVar(&flags.save, "save", "", "write evictd's document to a new `file`; - writes it to stdout instead of the ranking")
	f.StringVar(&flags.snapshot, "snapshot", "", "rank a saved document, without a cluster; - reads it from stdin")
	f.StringVar(&flags.at, "at", "", "rank as the record says that the node was at a `time`: so long ago, such as 90m, or 2026-11-25T03:00:00Z")
	f.StringVar(&flags.record, "record", "", "with --at, "+recordUsage)
	f.StringVar(&flags.config, "config", "", "with --snapshot or --at, rank by this configuration `file`")
	f.Lookup("config").Changed = true // not by $EVICTD_CONFIG, which is the agent's: a document has its own
	cmd.MarkFlagsMutuallyExclusive("snapshot", "debug-bind-address")
	cmd.MarkFlagsMutuallyExclusive("snapshot", "save")
	cmd.MarkFlagsMutuallyExclusive("snapshot", "at")
	cmd.MarkFlagsMutuallyExclusive("why", "output")
	return cmd
}

// check rejects what would be passed over in silence.
func (f *rankFlags) check() error {
	switch {
	case f.why != "" && strings.Count(f.why, "/") != 1:
		return fmt.Errorf("--why %q: write NAMESPACE/POD", f.why)
	case f.config != "" && f.snapshot == "" && f.at == "":
		return errors.New("--config is for --snapshot and --at: a running evictd ranks by its own configuration")
	case f.save == standardStream && (f.why != "" || f.output != formatTable):
		return errors.New("--save - writes the document to stdout and no ranking: leave --output and --why out, or name a file")
	default:
		return nil
	}
}

// run executes the command with its flags.
func (f *rankFlags) run(cmd *cobra.Command, _ []string) error {
	d, err := f.open(cmd)
	if err != nil {
		return err
	}
	for _, note := range []string{d.PodsUnknown, d.UsageUnread} {
		if note != "" {
			cmd.PrintErrln("evictd:", wording.OneLine(note))
		}
	}
	w := cmd.OutOrStdout()
	switch {
	case f.save == standardStream:
		return writeJSON(w, d)
	case f.save != "":
		if err := save(f.save, func(w io.Writer) error { return writeJSON(w, d) }); err != nil {
			return fmt.Errorf("--save %s: %w", f.save, err)
		}
	}
	d.Rank(f.signal)
	switch {
	case f.why != "":
		return d.WriteWhy(w, f.signal, f.why)
	case d.Ranking == nil:
		return errors.New(d.Unranked)
	case f.output == formatJSON:
		return writeJSON(w, d.Ranking)
	case f.output == formatYAML:
		return writeYAML(w, d.Ranking)
	default:
		return d.WriteRanking(w, f.signal, f.output == formatWide)
	}
}

// open returns the document to rank: the running evictd's, a saved one, or one of the record.
func (f *rankFlags) open(cmd *cobra.Command) (d *status.Document, err error) {
	from := "--snapshot " + f.snapshot
	switch {
	case f.at != "":
		from = "--at"
		d, err = f.recorded(cmd)
	case f.snapshot != "":
		d, err = f.saved(cmd)
	default:
		return askStatus(cmd.Context(), f.address, f.signal.OnDisk() || f.save != "")
	}
	if err == nil && f.config != "" {
		err = f.replaceConfiguration(d)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return d, nil
}

// recorded returns the document of the record.
func (f *rankFlags) recorded(cmd *cobra.Command) (*status.Document, error) {
	at, err := moment(f.at)
	if err != nil {
		return nil, err
	}
	r, err := openRecord(cmd, f.record)
	if err != nil {
		return nil, err
	}
	return r.At(at)
}

// saved returns a saved document.
func (f *rankFlags) saved(cmd *cobra.Command) (*status.Document, error) {
	if f.snapshot == standardStream {
		return status.Read(cmd.InOrStdin())
	}
	file, err := os.Open(f.snapshot)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was read
	return status.Read(file)
}

// replaceConfiguration puts the file in place of the configuration in a document, to see what would
// change with it.
func (f *rankFlags) replaceConfiguration(d *status.Document) error {
	loaded, err := loadConfig(f.config)
	if err != nil {
		return err
	}
	for _, key := range loaded.LabelKeys() {
		if !slices.Contains(d.Configuration.LabelKeys(), key) {
			return fmt.Errorf("--config %s: a selector reads the label %q, and an agent keeps only labels that its own configuration reads: run one with that configuration", f.config, key)
		}
	}
	d.Configuration = loaded
	for i := range d.Signals {
		d.Signals[i].Thresholds = nil // those of the other
	}
	return nil
}
