package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// claim makes the directory this cluster's, after removing the remains of an earlier one
// that no longer runs.
func claim(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{dir: options.Dir, log: options.Log, wait: readyTimeout * time.Duration(max(options.Patience, 1))}
	err := c.removeLeftovers(ctx)
	if err != nil {
		return nil, err
	}
	fresh := state{
		BinDir: options.BinDir, Node: options.Node, NodeName: options.NodeName,
		KeepLogs: options.KeepLogs,
	}
	if fresh.OwnsDir, err = emptyFolder(options.Dir); err != nil {
		return nil, err
	}
	if fresh.BootID, err = bootID(); err != nil {
		return nil, err
	}
	if fresh.Starter, err = identify(os.Getpid()); err != nil {
		return nil, err
	}
	if err := fresh.write(options.Dir, true); errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("starting in %s: %w", options.Dir, ErrRunning)
	} else if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) removeLeftovers(ctx context.Context) error {
	earlier, err := readState(c.dir)
	if errors.Is(err, ErrNoCluster) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(earlier.running()) > 0 || earlier.Starter.Running() {
		return fmt.Errorf("starting in %s: %w", c.dir, ErrRunning)
	}
	say(c.log, "Removing what an earlier cluster left in %s.", c.dir)
	return c.Stop(ctx)
}

// emptyFolder creates the directory, and returns whether it did. It may contain only the
// logs of an earlier cluster: everything in it is deleted when the cluster stops.
func emptyFolder(dir string) (made bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return false, fmt.Errorf("looking into the state folder: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() != "logs" {
			return false, fmt.Errorf("starting in %s: the folder is neither empty nor a cluster's: it holds %s", dir, entry.Name())
		}
	}
	return false, os.RemoveAll(filepath.Join(dir, "logs"))
}
