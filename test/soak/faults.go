package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// apiserver is the process's name in the test cluster.
const apiserver = "kube-apiserver"

// fault is what goes wrong during a round. It is over when inject returns.
type fault struct {
	name   string
	inject func(ctx context.Context, n *node.Node) error
	// restarts says that evictd's process is another one afterwards.
	restarts bool
}

// faults returns all of them. Half of the rounds have none.
func faults() []fault {
	none := fault{name: "nothing", inject: func(context.Context, *node.Node) error { return nil }}
	return []fault{
		none, none, none,
		{name: "the API server pauses for 5 s", inject: pausing(5 * time.Second)},
		{name: "the API server pauses for 15 s", inject: pausing(15 * time.Second)},
		{name: "the API server restarts", inject: restarting},
		{name: "evictd is killed", inject: func(ctx context.Context, n *node.Node) error { return n.Kill(ctx) }, restarts: true},
		{name: "evictd's pod is replaced", inject: func(ctx context.Context, n *node.Node) error { return n.Renew(ctx) }, restarts: true},
	}
}

// pickFault picks one. In the last two thirds of the run evictd's process stays the same, so that
// what it uses can be followed.
func (s *soak) pickFault() fault {
	for {
		f := pick(s.random, faults())
		if !f.restarts || time.Since(s.started) < s.settings.duration/3 {
			return f
		}
	}
}

// pausing returns a fault in which the API server answers nothing and keeps its connections.
func pausing(d time.Duration) func(context.Context, *node.Node) error {
	return func(ctx context.Context, n *node.Node) error {
		if err := n.Cluster.Signal(apiserver, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("pausing the API server: %w", err)
		}
		waited := measure.Sleep(ctx, d)
		if err := n.Cluster.Signal(apiserver, syscall.SIGCONT); err != nil {
			return errors.Join(waited, fmt.Errorf("resuming the API server: %w", err))
		}
		return waited
	}
}

func restarting(ctx context.Context, n *node.Node) error {
	if err := n.Cluster.StopProcess(ctx, apiserver); err != nil {
		return fmt.Errorf("restarting the API server: %w", err)
	}
	if err := n.Cluster.StartProcess(ctx, apiserver); err != nil {
		return fmt.Errorf("restarting the API server: %w", err)
	}
	return nil
}
