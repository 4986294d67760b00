package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// rankTimeout bounds everything that `evictd rank` asks of the cluster.
const rankTimeout = 30 * time.Second

// rankFlags are the flags of `evictd rank`.
type rankFlags struct {
	whereFlags
	signal string
	output string
}

func newRankCommand() *cobra.Command {
	var flags rankFlags
	cmd := &cobra.Command{
		Use:   "rank --config FILE --node-name NAME",
		Short: "Print who would go first right now, and why; evicts nobody",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printRanking(cmd.Context(), &flags, cmd.OutOrStdout())
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().StringVar(&flags.signal, "signal", pressure.MemoryAvailable.String(), "the signal to rank for")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "table", "table, wide, json or yaml")
	return cmd
}

func printRanking(ctx context.Context, flags *rankFlags, w io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	write, err := rankWriter(flags.output)
	if err != nil {
		return err
	}
	signal, err := rankSignal(flags.signal)
	if err != nil {
		return err
	}
	loaded, err := flags.load()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rankTimeout)
	defer cancel()
	ranking, err := rankNow(ctx, flags, loaded, signal)
	if err != nil {
		return err
	}
	return write(w, newRankReport(flags.nodeName, signal, ranking))
}

// rankSignal returns the signal of that name, if pods can be ranked for it.
func rankSignal(name string) (pressure.Signal, error) {
	var names []string
	for _, signal := range pressure.Signals() {
		if signal == pressure.MemoryStall {
			continue
		}
		if signal.String() == name {
			return signal, nil
		}
		names = append(names, signal.String())
	}
	why := "no such signal"
	if name == pressure.MemoryStall.String() {
		why = "no pod uses stall time; in a stall pods go in the order of memory.available"
	}
	return 0, usageError{fmt.Errorf("--signal %q: %s; name one of %s", name, why, strings.Join(names, ", "))}
}

// rankNow takes the same way as the agent, up to the ranking.
func rankNow(ctx context.Context, flags *rankFlags, loaded *config.EvictdConfiguration, signal pressure.Signal) (rank.Ranking, error) {
	clients, err := newClients(&flags.whereFlags)
	if err != nil {
		return rank.Ranking{}, err
	}
	if _, err = clients.getNode(ctx, flags.nodeName); err != nil {
		return rank.Ranking{}, err
	}
	host, err := openHost(&flags.whereFlags, loaded, []pressure.Signal{signal})
	if err != nil {
		return rank.Ranking{}, err
	}
	defer host.close() //nolint:errcheck // only files that were read
	list, err := clients.telling.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", flags.nodeName).String(),
	})
	if err != nil {
		return rank.Ranking{}, fmt.Errorf("listing the pods of node %s: %w", flags.nodeName, clients.explain(err, "list pods"))
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	source := agent.Source{
		Cgroups: host.tree,
		Self:    self(),
		Disk:    newSummaryDisk(clients, flags.nodeName, func() *config.EvictdConfiguration { return loaded }, host.dedicatedImageFS),
	}
	ranking, unread, err := agent.RankNow(ctx, signal, pods, source, loaded.Rules())
	if unread != nil {
		_, _ = fmt.Fprintf(os.Stderr, "evictd: %v\n", unread) // the pods in question are listed as protected
	}
	return ranking, err
}

// rankReport is what `evictd rank -o json` prints.
type rankReport struct {
	Node       string      `json:"node"`
	Signal     string      `json:"signal"`
	Resource   string      `json:"resource"`
	Candidates []rankEntry `json:"candidates"`
	Protected  []rankEntry `json:"protected"`
}

// rankEntry is one pod of the report. Usage and over are missing where the usage
// is not known.
type rankEntry struct {
	Rank      int    `json:"rank,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Owner     string `json:"owner,omitempty"`
	Priority  int32  `json:"priority"`
	// Queue is missing where no queues are configured; the effective priority is the
	// pod's own then.
	Queue      string `json:"queue,omitempty"`
	Effective  int32  `json:"effectivePriority"`
	Usage      *int64 `json:"usage,omitempty"`
	Request    int64  `json:"request"`
	Over       *int64 `json:"over,omitempty"`
	Exceeds    bool   `json:"exceeds"`
	Grace      int64  `json:"graceSeconds"`
	Protection string `json:"protection,omitempty"`
	Reason     string `json:"reason"`
}

func newRankReport(node string, signal pressure.Signal, ranking rank.Ranking) *rankReport {
	return &rankReport{
		Node: node, Signal: signal.String(), Resource: ranking.Resource.String(),
		Candidates: rankEntries(ranking.Candidates),
		Protected:  rankEntries(ranking.Protected),
	}
}

func rankEntries(entries []rank.Entry) []rankEntry {
	reported := make([]rankEntry, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		r := rankEntry{
			Rank: e.Position, Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID,
			Owner: e.Pod.Owner, Priority: e.Pod.Priority, Queue: e.Queue(), Effective: e.EffectivePriority(), Request: e.Pod.Request,
			Exceeds: e.Exceeds, Grace: e.Pod.GraceSeconds,
			Protection: string(e.Protection), Reason: e.Why(),
		}
		if e.Pod.Sampled {
			r.Usage, r.Over = &e.Pod.Usage, &e.Over
		}
		reported = append(reported, r)
	}
	return reported
}

// rankWriter returns the writer of an output format.
func rankWriter(format string) (func(io.Writer, *rankReport) error, error) {
	switch format {
	case "table":
		return func(w io.Writer, r *rankReport) error { return writeRankTable(w, r, false) }, nil
	case "wide":
		return func(w io.Writer, r *rankReport) error { return writeRankTable(w, r, true) }, nil
	case "json":
		return writeRankJSON, nil
	case "yaml":
		return writeRankYAML, nil
	default:
		return nil, usageError{fmt.Errorf("--output %q: write table, wide, json or yaml", format)}
	}
}

func writeRankJSON(w io.Writer, r *rankReport) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func writeRankYAML(w io.Writer, r *rankReport) error {
	text, err := yaml.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the ranking as YAML: %w", err)
	}
	_, err = w.Write(text)
	return err
}

// writeRankTable prints the candidates, the first to go first, then the protected.
func writeRankTable(w io.Writer, r *rankReport, wide bool) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	header := "RANK\tPOD\tQUEUE\tEXCEEDS\tPRIORITY\tEFFECTIVE\tUSAGE\tREQUEST\tOVER\tGRACE\tREASON"
	if wide {
		header = "RANK\tPOD\tUID\tOWNER\tQUEUE\tEXCEEDS\tPRIORITY\tEFFECTIVE\tUSAGE\tREQUEST\tOVER\tGRACE\tREASON"
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
	who := e.Namespace + "/" + e.Name
	if wide {
		who += "\t" + e.UID + "\t" + orDash(e.Owner)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%ds\t%s",
		position, who, orDash(e.Queue), yesNo(e.Exceeds), e.Priority, e.Effective, amount(resource, e.Usage),
		amount(resource, &e.Request), amount(resource, e.Over), e.Grace, e.Reason)
}

// amount prints what people read; an unknown figure is a dash and never 0.
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
