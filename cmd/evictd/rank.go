package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// rankTimeout bounds all requests to the cluster for one frame.
const rankTimeout = 30 * time.Second

// Defaults of the flags of `evictd rank`.
const (
	// intervalDefault is the interval of --watch.
	intervalDefault = 2 * time.Second
	// budgetsDefault is for how many candidates a dry run is sent: more than an hour of
	// evictions at the default limits rarely needs, and little work for the API server.
	budgetsDefault = 20
)

func newRankCommand() *cobra.Command {
	var flags rankFlags
	cmd := &cobra.Command{
		Use:   "rank {--config FILE --node-name NAME | --snapshot FILE}",
		Short: "Print which pod would be evicted first now, and why; evicts no pod",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printRanking(cmd.Context(), &flags, cmd)
		},
	}
	flags.add(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&flags.signal, "signal", pressure.MemoryAvailable.String(), "the signal to rank for")
	f.StringVarP(&flags.output, "output", "o", formatTable, "table, wide, json or yaml")
	f.StringVar(&flags.why, "why", "", "tell the whole story of one pod, NAMESPACE/POD, instead of the table")
	f.BoolVarP(&flags.watch, "watch", "w", false, "draw the table again every --interval, until interrupted")
	f.DurationVar(&flags.interval, "interval", intervalDefault, "how often --watch looks")
	f.IntVar(&flags.budgets, "budgets", budgetsDefault, "ask about the budgets of so many candidates, by server-side dry runs; 0 asks about none")
	f.StringVar(&flags.snapshot, "snapshot", "", "rank a recorded node, without a cluster; - reads it from stdin")
	f.StringVar(&flags.save, "save", "", "record what is seen of the node in a new file; - writes it to stdout instead of the ranking")
	return cmd
}

// printRanking executes the command with its flags.
func printRanking(ctx context.Context, flags *rankFlags, cmd *cobra.Command) error {
	signal, err := flags.check(cmd.Flags().Changed)
	if err != nil {
		return err
	}
	source, err := flags.open(ctx, signal, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer source.close() //nolint:errcheck // only files that were read
	r := &ranker{signal: signal, source: source, inquiry: source.inquiry()}
	if flags.watch {
		frame := func(ctx context.Context) (string, error) { return r.frame(ctx, flags) }
		return watchRanking(ctx, cmd.OutOrStdout(), flags.interval, frame)
	}
	ctx, cancel := context.WithTimeout(ctx, rankTimeout)
	defer cancel()
	seen, err := r.look(ctx)
	if err != nil {
		return err
	}
	if flags.why != "" {
		seen.readDetail(source, flags.why)
	}
	for _, note := range seen.notes {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "evictd: %s\n", wording.OneLine(note)) // the last place to report to
	}
	return flags.answer(seen, cmd.OutOrStdout())
}

// answer saves and prints the result.
func (f *rankFlags) answer(seen *sight, w io.Writer) error {
	if f.save != "" {
		if err := save(seen, f.save, w); err != nil {
			return err
		}
	}
	switch {
	case f.save == standardStream:
		return nil
	case f.why != "":
		return writeWhy(w, seen, f.why)
	default:
		return writeReport(w, f.output, newRankReport(seen))
	}
}

// frame returns one frame of --watch.
func (r *ranker) frame(ctx context.Context, flags *rankFlags) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, rankTimeout)
	defer cancel()
	seen, err := r.look(ctx)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s  node %s  %s\n\n", seen.node.Time.Local().Format(time.DateTime), seen.node.NodeName, available(seen))
	if err = writeReport(&text, flags.output, newRankReport(seen)); err != nil {
		return "", err
	}
	for _, note := range seen.notes {
		fmt.Fprintf(&text, "\n%s\n", wording.OneLine(note))
	}
	return text.String(), nil
}
