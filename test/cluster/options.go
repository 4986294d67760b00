package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// NodeName is the node's name.
const NodeName = "evictd-node"

// PauseImage is the reference of the pause image that every node has. It is the test
// workload, which without arguments only waits for SIGTERM.
const PauseImage = "localhost/evictd/pause:test"

// Options configure [Start]. Dir and BinDir are required.
type Options struct {
	// Dir is the cluster's directory. It is created if missing and must be empty. Everything that the cluster
	// writes is below it.
	Dir string
	// BinDir holds the binaries that build.sh made.
	BinDir string
	// Node adds a scheduler and a node to the control plane. It needs root.
	Node bool
	// Disk puts the directories of the kubelet, containerd and the logs on one small
	// filesystem, or two. Nil leaves them on that of Dir. It needs mkfs.ext4 and loop
	// devices.
	Disk *Disk
	// Kubelet holds fields of the KubeletConfiguration that replace or extend those of the
	// cluster, by their names in the file. Its hard thresholds are only memory.available at 1Mi,
	// so that evictd acts first.
	Kubelet map[string]any
	// AuditPolicy is the API server's audit policy as YAML; empty logs every completed
	// request with its metadata, evictions with their body.
	AuditPolicy string
	// Log receives the progress in plain sentences; nil discards it.
	Log io.Writer
}

func (o Options) complete() (Options, error) {
	if o.Dir == "" || o.BinDir == "" {
		return o, fmt.Errorf("checking options: Dir is %q, BinDir %q: name both; make cluster-build makes bin/cluster, which $EVICTD_CLUSTER_BIN names", o.Dir, o.BinDir)
	}
	if _, err := patience(); err != nil {
		return o, err
	}
	for _, dir := range []*string{&o.Dir, &o.BinDir} {
		absolute, err := realPath(*dir)
		if err != nil {
			return o, fmt.Errorf("resolving folder %s: %w", *dir, err)
		}
		*dir = absolute
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Node && os.Geteuid() != 0 {
		return o, errors.New("starting a node: it needs root; without root the control plane alone can run")
	}
	return o, nil
}

// realPath makes a path absolute and resolves symbolic links in its existing part: mount
// points and processes are later found by this exact text.
func realPath(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if errors.Is(err, os.ErrNotExist) {
		resolved, err = realPath(filepath.Dir(absolute))
		return filepath.Join(resolved, filepath.Base(absolute)), err
	}
	return resolved, err
}
