package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// hostTakes starts a process of the host, outside the pods, that takes memory at a rate.
func (t *turn) hostTakes(mebibytes, rate int64) error {
	process := exec.Command(filepath.Join(t.node.Files.ClusterBin, "workload"), //nolint:gosec,noctx // the Makefile built it; end ends it
		fmt.Sprintf("--memory=%dMi", mebibytes), "--memory-rate="+strconv.FormatInt(rate, 10))
	if err := process.Start(); err != nil {
		return fmt.Errorf("starting a process of the host: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = append(t.hosts, process)
	return nil
}

// hostsHold returns what the host processes hold, in bytes.
func (t *turn) hostsHold() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := int64(0)
	for _, process := range t.hosts {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", process.Process.Pid))
		if err != nil {
			continue // it has ended
		}
		var size, resident int64
		if n, _ := fmt.Sscan(string(text), &size, &resident); n == 2 {
			sum += resident * int64(os.Getpagesize())
		}
	}
	return sum
}
