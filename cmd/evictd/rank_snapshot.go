package main

import (
	"context"
	"fmt"
	"io"

	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/pkg/usage"
)

// recordedNode is a snapshot of a node.
type recordedNode struct{ seen *snapshot.NodeSnapshot }

// openRecorded reads the snapshot. A --config beside it replaces the recorded configuration,
// to see what would change with it.
func openRecorded(flags *rankFlags, stdin io.Reader) (*recordedNode, error) {
	seen, err := readSnapshot(flags.snapshot, stdin)
	if err != nil {
		return nil, fmt.Errorf("--snapshot %s: %w", flags.snapshot, err)
	}
	if flags.config != "" {
		if seen.Configuration, err = flags.load(); err != nil {
			return nil, err
		}
	}
	return &recordedNode{seen}, nil
}

func readSnapshot(path string, stdin io.Reader) (*snapshot.NodeSnapshot, error) {
	if path == standardStream {
		return snapshot.Read(stdin)
	}
	return snapshot.Load(path)
}

func (r *recordedNode) look(context.Context) (*snapshot.NodeSnapshot, error) { return r.seen, nil }

func (r *recordedNode) inquiry() *inquiry { return nil }

func (r *recordedNode) detail(string) (*usage.Detail, error) { return nil, nil }

func (r *recordedNode) close() error { return nil }

// save writes the facts to a new file, or to w.
func save(seen *sight, path string, w io.Writer) error {
	if path != standardStream {
		if err := seen.node.Save(path); err != nil {
			return fmt.Errorf("--save %s: %w", path, err)
		}
		return nil
	}
	text, err := seen.node.Encode()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
