// Command idle measures the cost of evictd on a node without pressure: the real binary
// with a real API server that has as many pods on its node as a kubelet accepts, each with a
// pod cgroup. `make bench-idle` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/measure"
)

const (
	pods    = 110 // on the node: what a kubelet takes by default
	windows = 3   // measurements of each case; their median is shown
)

func main() { os.Exit(measure.Run("idle", run)) }

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("idle", flag.ContinueOnError)
	window := flags.Duration("window", time.Minute, "how long one measurement takes")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *window < time.Second {
		return errors.New("a window of at least one second")
	}
	return measure.OnCluster(ctx, "idle", func(c *cluster.Cluster, dir string) error {
		return measureAll(ctx, &idleNode{window: *window, dir: dir, cluster: c})
	})
}

// measureAll measures every case on a node and prints them.
func measureAll(ctx context.Context, n *idleNode) (err error) {
	if n.client, err = kubernetes.NewForConfig(n.cluster.RESTConfig()); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer func() { err = errors.Join(err, n.remove(context.WithoutCancel(ctx))) }()
	if err := n.make(ctx); err != nil {
		return err
	}
	var rows [][]string
	for _, each := range cases() {
		fmt.Printf("%s: %d times %v.\n", each.name, windows, n.window)
		row, err := n.measure(ctx, each)
		if err != nil {
			return fmt.Errorf("measuring %q: %w", each.name, err)
		}
		fmt.Println(" ", strings.Join(row[1:], " | "))
		rows = append(rows, row)
	}
	fmt.Printf("\n%s; %d pods; medians of %d times %v\n\n", measure.Machine(), pods, windows, n.window)
	return measure.Table(os.Stdout, header(), rows)
}
