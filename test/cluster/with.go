package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// With runs what needs a control plane, with that and a temporary directory, and removes both. The binaries are
// those of $EVICTD_CLUSTER_BIN.
func With(ctx context.Context, name string, run func(c *Cluster, dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "evictd-"+name+"-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := Start(ctx, Options{Dir: filepath.Join(dir, "cluster"), BinDir: os.Getenv("EVICTD_CLUSTER_BIN"), Log: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	return run(c, dir)
}
