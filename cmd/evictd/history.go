package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/history"
)

const recordUsage = "the `directory` of the record, or a file of evictd record export"

// recordFlags say where a record is, and from when on.
type recordFlags struct{ path, since string }

// add adds the flags.
func (f *recordFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "record", "", recordUsage)
	cmd.Flags().StringVar(&f.since, "since", "24h", "from when on: a `time` such as 2h ago, or 2026-11-25T03:00:00Z")
}

// open opens the record, for what is not older than the time that is returned.
func (f *recordFlags) open(cmd *cobra.Command) (*history.Record, time.Time, error) {
	since, err := moment(f.since)
	if err != nil {
		return nil, since, fmt.Errorf("--since: %w", err)
	}
	r, err := openRecord(cmd, f.path)
	if err == nil && !cmd.Flags().Changed("since") && r.Exported() {
		since = time.Unix(0, 0) // all of a file
	}
	return r, since, err
}

// openRecord opens the record of a flag. What of it is damaged is said once the rest was read.
func openRecord(cmd *cobra.Command, path string) (*history.Record, error) {
	if path == "" {
		return nil, errors.New("name the record by --record: a directory that evictd run --record writes, or a file of evictd record export")
	}
	r, err := history.Open(path)
	cmd.PostRun = func(*cobra.Command, []string) {
		for _, what := range r.Damaged {
			cmd.PrintErrln("evictd: " + what + "; the rest was read")
		}
	}
	return r, err
}

// moment returns the time that a text names: so long ago, or a time of RFC 3339.
func moment(text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is no time: write how long ago, such as 90m, or a time such as 2026-11-25T03:00:00Z", text)
	}
	return at, nil
}

func newIncidentsCommand() *cobra.Command {
	var flags recordFlags
	var output string
	const short = "Print what this node was short of, by its record: a line for each incident"
	cmd := newCommand("incidents", short, func(cmd *cobra.Command, _ []string) error {
		r, since, err := flags.open(cmd)
		if err != nil {
			return err
		}
		all, err := r.Incidents(since)
		switch w := cmd.OutOrStdout(); {
		case err != nil:
			return err
		case output == formatJSON:
			return writeJSON(w, all)
		case len(all) == 0:
			_, err = fmt.Fprintln(w, "no incident since", since.UTC().Format(time.RFC3339))
			return err
		default:
			return history.WriteIncidents(w, all)
		}
	})
	flags.add(cmd)
	addChoice(cmd, &output, "output", "o", formatTable, formatJSON)
	cmd.AddCommand(newShowCommand())
	return cmd
}

func newShowCommand() *cobra.Command {
	var path string
	const short = "Tell the story of an incident: what grew before, what was decided and why, what came back, and a hint for the owners"
	cmd := newCommand("show INCIDENT", short, func(cmd *cobra.Command, args []string) error {
		r, err := openRecord(cmd, path)
		if err != nil {
			return err
		}
		return r.Show(cmd.OutOrStdout(), args[0])
	})
	cmd.Args = cobra.ExactArgs(1)
	cmd.Flags().StringVar(&path, "record", "", recordUsage)
	return cmd
}

func newRecordCommand() *cobra.Command {
	var flags recordFlags
	var file string
	cmd := newCommand("export -o FILE", "Save a part of the record, for another machine", func(cmd *cobra.Command, _ []string) error {
		r, since, err := flags.open(cmd)
		if err != nil {
			return err
		}
		if file == standardStream {
			return r.Export(cmd.OutOrStdout(), since)
		}
		return save(file, func(w io.Writer) error { return r.Export(w, since) })
	})
	flags.add(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "a new `file`; - writes to stdout")
	_ = cmd.MarkFlagRequired("output") // it is there
	record := &cobra.Command{Use: "record", Short: "Save the record of what happened on the node"}
	record.AddCommand(cmd)
	return record
}

// save writes a new file that its owner alone may read. A file that is there already stays, and half a file is removed.
func save(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
	if err != nil {
		return fmt.Errorf("%w; name a new file", err)
	}
	if err = errors.Join(write(file), file.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}
