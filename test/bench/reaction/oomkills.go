package main

import (
	"os"
	"path/filepath"

	"github.com/evictd/evictd/test/internal/measure"
)

// podOOMKills returns the count of the pod's cgroup and the groups below it, as far as they
// still exist.
func podOOMKills(uid string) int64 {
	sum := int64(0)
	for _, pattern := range []string{
		"/sys/fs/cgroup/memory/evictd-node-*/kubepods/*/pod" + uid + "/*/memory.oom_control",
		"/sys/fs/cgroup/evictd-node-*/kubepods/*/pod" + uid + "/*/memory.events",
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, path := range found {
			if text, err := os.ReadFile(path); err == nil { //nolint:gosec // below the node's own cgroup
				sum += measure.SumOf(string(text), "oom_kill")
			}
		}
	}
	return sum
}
