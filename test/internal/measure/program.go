package measure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/evictd/evictd/test/cluster"
)

// Run is the main function of a benchmark's program. It runs the benchmark until it is done,
// or an interrupt ends its context, prints its error and returns the exit code.
func Run(name string, run func(ctx context.Context, arguments []string) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return 0
}

// OnCluster runs a measurement with a real API server, in a temporary directory, and removes
// both.
func OnCluster(ctx context.Context, name string, run func(c *cluster.Cluster, dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "evictd-"+name+"-")
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
	return run(c, dir)
}
