// Command idle measures what evictd costs a node that is short of nothing: the real
// binary, in a cgroup of its own, beside a real API server with as many pods on its
// node as a kubelet takes, each with a pod cgroup. `make bench-idle` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

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

func run(ctx context.Context, arguments []string) (err error) {
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "evictd-idle-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"), BinDir: os.Getenv("EVICTD_CLUSTER_BIN"), Log: os.Stdout,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	n := &idleNode{settings: chosen, dir: dir, cluster: c, client: client}
	defer func() { err = errors.Join(err, n.remove(context.WithoutCancel(ctx))) }()
	if err := n.make(ctx); err != nil {
		return err
	}
	var rows [][]string
	for _, each := range cases() {
		fmt.Printf("%s: %d times %v.\n", each.name, chosen.windows, chosen.window)
		row, err := n.measure(ctx, each)
		if err != nil {
			return fmt.Errorf("measuring %q: %w", each.name, err)
		}
		fmt.Println(" ", strings.Join(row[1:], " | "))
		rows = append(rows, row)
	}
	fmt.Printf("\n%s; %d pods; medians of %d times %v\n\n", measure.Machine(), chosen.pods, chosen.windows, chosen.window)
	return measure.Table(os.Stdout, header(), rows)
}
