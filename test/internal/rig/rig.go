// Package rig is a real node for a benchmark whose thresholds lie in the machine's memory: a ballast puts the node at
// a distance from them.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
)

// Rig is one run of a benchmark. The zero value has no node yet.
type Rig struct {
	// Started is when the run began, for what it says.
	Started time.Time
	// Node is the node; nil before it has started.
	Node *node.Node
	// Ballast is what is taken of the machine's memory.
	Ballast memory.Ballast
	// Dir is a folder of the run into which containers may look.
	Dir string
}

// Say prints a sentence with the time since the start.
func (r *Rig) Say(format string, arguments ...any) {
	fmt.Printf("[%5.0fs] %s\n", time.Since(r.Started).Seconds(), fmt.Sprintf(format, arguments...))
}

// Run starts what a run needs, measures, and removes everything again, whatever the errors.
func (r *Rig) Run(ctx context.Context, up, measure func(context.Context) error) error {
	err := up(ctx)
	if err == nil {
		err = measure(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	if r.Node != nil {
		err = errors.Join(err, r.Node.Stop(ctx))
	}
	err = errors.Join(err, r.Ballast.Set(0), os.RemoveAll(r.Dir))
	r.Say("Everything is removed again.")
	return err
}

// Start makes the folder, and starts the node of the files that the Makefile has built, with a namespace, and a
// PriorityClass of that value.
func (r *Rig) Start(ctx context.Context, namespace, class string, value int32, change func(*cluster.Options)) error {
	files, err := node.FilesFromEnvironment()
	if err != nil {
		return err
	}
	if r.Dir, err = os.MkdirTemp("", "evictd-"+namespace+"-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err = os.Chmod(r.Dir, 0o755); err != nil { //nolint:gosec // containers look into it
		return fmt.Errorf("opening a folder to containers: %w", err)
	}
	if r.Node, err = node.Start(ctx, files, os.Stdout, change); err != nil {
		return err
	}
	if _, err = r.Node.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	_, err = r.Node.Kubectl(ctx, "create", "priorityclass", class, fmt.Sprintf("--value=%d", value))
	return err
}
