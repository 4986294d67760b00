//go:build e2e || e2e_all

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// live is the node that all tests use, one after the other: pressure affects the whole node.
// Said is the log of evictd on earlier nodes.
var (
	live *node.Node
	said string
)

// The disks of the node's directories: small enough that a test fills them in a second.
var (
	oneDisk  = cluster.Disk{Size: 512 << 20, Inodes: 16 << 10}
	twoDisks = cluster.Disk{Size: 1280 << 20, Images: 1 << 30}
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := 1
	if err := bringUp(ctx, oneDisk); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	} else {
		code = m.Run()
	}
	err := takeDown(context.WithoutCancel(ctx))
	if code != 0 {
		fmt.Fprintln(os.Stderr, "evictd's log:\n"+said)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: stopping the node:", err)
		return 1
	}
	return code
}

// bringUp starts live, a node with evictd on it. The kubelet measures volumes more often than every
// minute or two (volumeStatsPeriod), so that no test waits for minutes. It does not rotate logs.
func bringUp(ctx context.Context, disk cluster.Disk) error {
	files, err := node.FilesFromEnvironment()
	if err != nil {
		return err
	}
	live, err = node.Start(ctx, files, os.Stderr, func(options *cluster.Options) {
		options.Disk = &disk
		options.Kubelet["syncFrequency"] = "1s" // an edit of the ConfigMap reaches the pod as soon
		options.Kubelet["volumeStatsAggPeriod"] = volumeStatsPeriod
		options.Kubelet["containerLogMaxSize"] = "1Gi"
		// Where a test gives the kubelet thresholds of a disk, it removes unused images at
		// once: it counts their age from its own start.
		options.Kubelet["imageMinimumGCAge"] = "1ms"
	})
	if err != nil {
		return err
	}
	return live.Deploy(ctx)
}

func takeDown(ctx context.Context) error {
	if live == nil {
		return nil
	}
	log, _ := live.Log(ctx)
	said += log
	return live.Stop(ctx)
}

// on replaces the node with one that has these disks: only one can run on a machine. That
// takes time, so tests of the same disks should be adjacent.
func on(t *testing.T, disk cluster.Disk) {
	t.Helper()
	if live != nil && live.Disk == disk {
		return
	}
	if err := takeDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := bringUp(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
}
