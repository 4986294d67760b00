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

// settings are the flags.
type settings struct {
	pods    int
	window  time.Duration
	windows int
}

func main() { os.Exit(measure.Run("idle", run)) }

func parse(arguments []string) (settings, error) {
	const pods, windows = 110, 3
	var s settings
	flags := flag.NewFlagSet("idle", flag.ContinueOnError)
	flags.IntVar(&s.pods, "pods", pods, "pods on the node")
	flags.DurationVar(&s.window, "window", time.Minute, "how long one measurement takes")
	flags.IntVar(&s.windows, "windows", windows, "measurements of each case; their median is shown")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	if s.pods < 1 || s.window < time.Second || s.windows < 1 {
		return s, errors.New("at least one pod, one second and one window")
	}
	return s, nil
}

func run(ctx context.Context, arguments []string) error {
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	return measure.OnCluster(ctx, "idle", func(c *cluster.Cluster, dir string) error {
		return measureAll(ctx, &idleNode{settings: chosen, dir: dir, cluster: c})
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
		fmt.Printf("%s: %d times %v.\n", each.name, n.settings.windows, n.settings.window)
		row, err := n.measure(ctx, each)
		if err != nil {
			return fmt.Errorf("measuring %q: %w", each.name, err)
		}
		fmt.Println(" ", strings.Join(row[1:], " | "))
		rows = append(rows, row)
	}
	fmt.Printf("\n%s; %d pods; medians of %d times %v\n\n", measure.Machine(), n.settings.pods, n.settings.windows, n.settings.window)
	return measure.Table(os.Stdout, header(), rows)
}
