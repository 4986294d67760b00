// Command permits puts many agents under hard pressure at the same moment, all in one process
// and with one real API server, without permits and with them, and measures the requests to
// the API server. `make bench-permits` runs it. It exits with 1 when a budget was violated or
// a workload held more permits than it has.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/fleet"
	"github.com/evictd/evictd/test/internal/measure"
)

func main() { os.Exit(measure.Run("permits", run)) }

func parse(arguments []string) (fleet.Options, error) {
	const nodes, workloads, pods, victims, unavailable, permits = 200, 10, 5, 2, 15, 5
	o := fleet.Options{Log: os.Stdout}
	flags := flag.NewFlagSet("permits", flag.ContinueOnError)
	flags.IntVar(&o.Nodes, "agents", nodes, "agents, each on a node of its own")
	flags.IntVar(&o.Workloads, "workloads", workloads, "Deployments, each with a budget")
	flags.IntVar(&o.PodsPerNode, "pods", pods, "pods on each node")
	flags.IntVar(&o.Victims, "victims", victims, "pods that must end on each node")
	flags.IntVar(&o.Unavailable, "unavailable", unavailable, "maxUnavailable of each budget")
	flags.IntVar(&o.Permits, "permits", permits, "permits of each workload, in the run with permits")
	flags.DurationVar(&o.Patience, "patience", 4*time.Minute, "how long the pressure may last") //nolint:mnd // a default
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if o.Nodes < 1 || o.Workloads < 1 || o.Permits < 1 || o.Unavailable < 1 || o.Victims < 1 || o.Victims > o.PodsPerNode {
		return o, errors.New("at least one of each, and no more victims than pods")
	}
	return o, nil
}

func run(ctx context.Context, arguments []string) error {
	options, err := parse(arguments)
	if err != nil {
		return err
	}
	return measure.OnCluster(ctx, "permits", func(c *cluster.Cluster, _ string) error {
		options.Config = c.RESTConfig()
		return compare(ctx, options)
	})
}

// compare runs the agents without permits and with them, and prints both.
func compare(ctx context.Context, options fleet.Options) error {
	permits := options.Permits
	var rows [][]string
	var faults error
	for _, options.Permits = range []int{0, permits} {
		fmt.Println(name(options.Permits) + ":")
		result, err := fleet.Run(ctx, options)
		if result == nil {
			return err
		}
		faults = errors.Join(faults, err, judge(&options, result))
		rows = append(rows, row(&options, result))
		for _, message := range result.Unlucky {
			fmt.Println(" ", message)
		}
	}
	fmt.Printf("\n%s; %d agents, %d pods of %d workloads, maxUnavailable %d, %d victims on each node\n\n", measure.Machine(),
		options.Nodes, options.Nodes*options.PodsPerNode, options.Workloads, options.Unavailable, options.Victims)
	return errors.Join(faults, measure.Table(os.Stdout, header(), rows))
}

func name(permits int) string {
	if permits == 0 {
		return "none"
	}
	return strconv.Itoa(permits) + " permits"
}

// judge returns an error for a violated invariant.
func judge(o *fleet.Options, r *fleet.Result) error {
	var faults error
	if r.Violated > 0 {
		faults = fmt.Errorf("permits %s: budgets were violated %d times: %s", name(o.Permits), r.Violated, strings.Join(r.Budgets, ", "))
	}
	if r.MostPermits > o.Permits {
		faults = errors.Join(faults, fmt.Errorf("permits %s: %d permits of one workload were held at once", name(o.Permits), r.MostPermits))
	}
	if o.Permits > 0 && r.MostLeaving > o.Permits && r.WithoutPermit == 0 {
		faults = errors.Join(faults, fmt.Errorf("permits %s: %d pods of one workload were in flight at once", name(o.Permits), r.MostLeaving))
	}
	return faults
}

func header() []string {
	return []string{
		"permits", "evictions asked / accepted / refused by a budget", "sent without a permit", "requests", "peak requests/s",
		"peak evictions/s", "eviction p50 / p99 ms", "permit p50 / p99 ms", "budgets violated", "most of a workload leaving",
		"most permits held", "over after s",
	}
}

func row(o *fleet.Options, r *fleet.Result) []string {
	asked := 0
	for _, n := range r.Outcomes {
		asked += n
	}
	permits := ""
	if len(r.Permits) > 0 {
		permits = quantiles(r.Permits)
	}
	return []string{
		name(o.Permits),
		fmt.Sprintf("%d / %d / %d", asked, r.Outcomes[evict.Evicted], r.Outcomes[evict.BlockedByBudget]+r.Outcomes[evict.BudgetPending]),
		strconv.Itoa(r.WithoutPermit), strconv.Itoa(r.Requests), strconv.Itoa(r.Peak), strconv.Itoa(r.PeakEvictions),
		quantiles(r.Evictions), permits, strconv.Itoa(r.Violated), strconv.Itoa(r.MostLeaving), strconv.Itoa(r.MostPermits),
		fmt.Sprintf("%.1f", r.Took.Seconds()),
	}
}

func quantiles(values []time.Duration) string {
	const half, almostAll = 0.5, 0.99
	ms := func(q float64) float64 { return float64(measure.Quantile(values, q).Microseconds()) / 1000 }
	return fmt.Sprintf("%.1f / %.1f", ms(half), ms(almostAll))
}
