package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

// load is what the API server has used and holds, and how many requests agents have made.
func (b *bench) load() (read [figures]float64, err error) {
	pid, err := b.cluster.PID("kube-apiserver")
	if err != nil {
		return read, err
	}
	return b.read(pid)
}

// measureServer prints what the API server uses without agents, and with all of them.
func (b *bench) measureServer(ctx context.Context) (err error) {
	host, err := evictdtest.MakeHost(filepath.Join(b.dir, "host"))
	if err != nil {
		return err
	}
	for i := range b.agents {
		if _, err = b.makeNode(ctx, i); err != nil {
			return err
		}
	}
	without, err := b.row(ctx, "none")
	if err != nil {
		return err
	}
	var running []*evictdtest.Process
	defer func() {
		var ended errgroup.Group
		for _, agent := range running {
			ended.Go(agent.End)
		}
		err = errors.Join(err, ended.Wait())
	}()
	before, err := b.load()
	if err == nil {
		running, err = b.startAll(ctx, host)
	}
	after, unread := b.load()
	if err = errors.Join(err, unread); err != nil {
		return err
	}
	with, err := b.row(ctx, fmt.Sprint(b.agents))
	if err != nil {
		return err
	}
	fmt.Printf("\n%s; %d nodes with %d pods each; windows of %v\nThe start of one agent costs %.1f ms of the API server's CPU.\n\n",
		measure.Machine(), b.agents, b.pods, b.window, 1000*(after[cpu]-before[cpu])/float64(b.agents))
	header := []string{"agents", "API server's CPU, thousandths of a core", "its RSS MiB", "agents' requests/s"}
	return measure.Table(os.Stdout, header, [][]string{without, with})
}

// startAll starts all agents at once, and waits until they are ready.
func (b *bench) startAll(ctx context.Context, host *evictdtest.Host) ([]*evictdtest.Process, error) {
	var running []*evictdtest.Process
	// Many nodes share this machine's cores: sampled more often they would leave less for the API server. The
	// requests do not depend on it.
	const settings = evictdtest.Thresholds + "sampling: {minInterval: 10s, maxInterval: 10s}\n"
	for i := range b.agents {
		agent, err := b.start(i, host, settings)
		if err != nil {
			return running, err
		}
		running = append(running, agent)
	}
	for _, agent := range running {
		if err := ready(ctx, agent); err != nil {
			return running, err
		}
	}
	return running, nil
}

// row measures the API server for a window.
func (b *bench) row(ctx context.Context, agents string) ([]string, error) {
	const settles = 30 * time.Second // the API server's own work after a start, and evictd's checks
	fmt.Printf("Agents: %s, for %v.\n", agents, b.window)
	if err := measure.Sleep(ctx, settles); err != nil {
		return nil, err
	}
	before, err := b.load()
	err = errors.Join(err, measure.Sleep(ctx, b.window))
	after, unread := b.load()
	return []string{
		agents, fmt.Sprintf("%.1f", 1000*(after[cpu]-before[cpu])/b.window.Seconds()), fmt.Sprintf("%.0f", after[rss]),
		fmt.Sprintf("%.2f", (after[requests]-before[requests])/b.window.Seconds()),
	}, errors.Join(err, unread)
}
