package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/evictd/evictd/test/internal/measure"
)

// hostsFile is the file of the host on the node's disk.
func (t *turn) hostsFile() string { return filepath.Join(t.disk.root, "host-file") }

// hostRuns starts a process of the host, outside the pods.
func (t *turn) hostRuns(flags ...string) error {
	process := exec.Command(filepath.Join(t.Node.Files.ClusterBin, "workload"), flags...) //nolint:gosec,noctx // the Makefile built it; end ends it
	if err := process.Start(); err != nil {
		return fmt.Errorf("starting a process of the host: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = append(t.hosts, process)
	return nil
}

// endHosts ends the host's processes, and removes their file.
func (t *turn) endHosts() error {
	for _, process := range t.hosts {
		_ = process.Process.Kill()
		_ = process.Wait()
	}
	return os.RemoveAll(t.hostsFile())
}

// hostsHold returns what the host processes hold, in bytes.
func (t *turn) hostsHold() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := int64(0)
	for _, process := range t.hosts {
		resident, _ := measure.OfProcess(process.Process.Pid, "VmRSS") // none once it has ended
		sum += resident
	}
	return sum
}
