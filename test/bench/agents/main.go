// Command agents measures what many calm agents cost one real API server and its etcd: memory,
// CPU and bytes of each agent, without and with pods that come and go, and what happens when the
// API server ends and all agents return. `make bench-agents` runs it; docs/results has its tables.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/fleet"
	"github.com/evictd/evictd/test/internal/measure"
)

func main() { os.Exit(measure.Run("agents", run)) }

// settings are the flags.
type settings struct {
	agents   int
	pods     int
	window   time.Duration
	windows  int
	churn    float64 // % of a cluster's pods in an hour
	density  int     // pods of a node, for the rate of the churn and for the dense nodes
	restarts int
	rounds   int
	stops    int
}

func parse(arguments []string) (settings, error) {
	const agents, pods, windows, churn, density, restarts, rounds, stops = 1000, 10, 3, 10, 110, 3, 10, 5
	var s settings
	flags := flag.NewFlagSet("agents", flag.ContinueOnError)
	flags.IntVar(&s.agents, "agents", agents, "agents at the last step, each on a node of its own; the others are 0, a quarter and half")
	flags.IntVar(&s.pods, "pods", pods, "pods on each node, the agent's included")
	flags.DurationVar(&s.window, "window", 20*time.Second, "one measurement") //nolint:mnd // a default
	flags.IntVar(&s.windows, "windows", windows, "measurements of which the median counts; 0 leaves them out")
	flags.Float64Var(&s.churn, "churn", churn, "% of the pods that are replaced in an hour")
	flags.IntVar(&s.density, "density", density, "pods of a full node: the churn is that of so many on each node")
	flags.IntVar(&s.restarts, "restarts", restarts, "restarts of the API server")
	flags.IntVar(&s.rounds, "rounds", rounds, "how often a few agents connect anew, for the cost of one; 0 leaves it out")
	flags.IntVar(&s.stops, "stops", stops, "how often all agents are stopped, and let act again")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	const fewest = 40
	if s.agents < fewest || s.pods < 2 || s.windows < 0 || s.rounds < 0 || s.restarts < 0 || s.stops < 0 || s.density < s.pods || s.churn <= 0 {
		return s, errors.New("at least 40 agents, 2 pods, a churn, and a density of at least --pods")
	}
	return s, nil
}

// bench is one run.
type bench struct {
	settings
	server *server
	calm   *fleet.Calm
}

func run(ctx context.Context, arguments []string) error {
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	return measure.OnCluster(ctx, "agents", func(c *cluster.Cluster, dir string) error {
		tokens := filepath.Join(dir, "tokens")
		if err = os.Mkdir(tokens, 0o700); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		b := &bench{settings: chosen}
		begin := time.Now()
		fmt.Printf("%d nodes with %d pods are being made.\n", b.agents, b.pods)
		if b.calm, err = fleet.NewCalm(ctx, fleet.CalmOptions{
			Config: c.RESTConfig(), Dir: tokens, Nodes: b.agents, PodsPerNode: b.pods,
		}); err != nil {
			return err
		}
		b.server = &server{cluster: c, calm: b.calm}
		fmt.Printf("They are there after %.0f s.\n", time.Since(begin).Seconds())
		return b.all(ctx)
	})
}

// all runs every part, and prints its tables.
func (b *bench) all(ctx context.Context) error {
	defer b.calm.Disconnect(ctx) //nolint:errcheck // the parts have ended theirs
	if err := b.manifest(ctx); err != nil {
		return err
	}
	size, err := b.calm.PodBytes(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s; %d nodes with %d pods of %d bytes (protobuf) each\n", measure.Machine(), b.agents, b.pods, size)
	var start syncCost
	var slopes []slope
	if b.rounds > 0 {
		if start, err = b.syncs(ctx); err != nil {
			return err
		}
	}
	if b.windows > 0 {
		if slopes, err = b.levels(ctx); err != nil {
			return err
		}
	}
	if err := b.calm.Connect(ctx, b.calm.Agents(), b.agents); err != nil {
		return err
	}
	if err := b.stopAll(ctx); err != nil {
		return err
	}
	if err := b.herds(ctx); err != nil {
		return err
	}
	return b.paper(slopes, start)
}

// manifest applies the shipped manifest but for the DaemonSet, and prints what the policies cost
// the API server's memory before there is any agent.
func (b *bench) manifest(ctx context.Context) error {
	if err := b.server.restart(ctx); err != nil {
		return err
	}
	before, _, err := b.server.settledHeap(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile("../deploy/daemonset.yaml")
	if err != nil {
		return fmt.Errorf("reading the shipped manifest: %w", err)
	}
	var kept []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if !strings.Contains("\n"+document, "\nkind: DaemonSet\n") {
			kept = append(kept, document)
		}
	}
	kubectl := exec.CommandContext(ctx, filepath.Join(os.Getenv("EVICTD_CLUSTER_BIN"), "kubectl"), //nolint:gosec // the Makefile built it
		"--kubeconfig="+b.server.cluster.Kubeconfig(), "apply", "-f", "-")
	kubectl.Stdin = strings.NewReader(strings.Join(kept, "\n---\n"))
	var output bytes.Buffer
	kubectl.Stdout, kubectl.Stderr = &output, &output
	if err = kubectl.Run(); err != nil {
		return fmt.Errorf("applying the shipped manifest: %w: %s", err, output.String())
	}
	after, _, err := b.server.settledHeap(ctx)
	if err != nil {
		return err
	}
	pods := b.agents * (b.pods - 1)
	fmt.Printf("\nThe API server's live heap is %.1f MiB with %d pods, and %.1f MiB once the shipped manifest is applied, without an agent.\n",
		mebibytes(before), pods, mebibytes(after))
	return b.calm.Admit(ctx)
}

func mebibytes(n float64) float64 { return n / (1 << 20) }
