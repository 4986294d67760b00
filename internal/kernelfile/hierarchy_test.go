package kernelfile_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// The two versions, each with and without the pids controller, and mounts that account for nothing.
func TestHierarchyOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tree    kernelfiletest.Tree
		want    kernelfile.Hierarchy // relative to the mount; PIDs "." is the mount
		wantErr string
	}{
		"v2":             {kernelfiletest.Tree{"cgroup.controllers": "cpu memory pids\n"}, kernelfile.Hierarchy{Unified: true, Memory: ".", PIDs: "."}, ""},
		"v2, no pids":    {kernelfiletest.Tree{"cgroup.controllers": "cpu memory\n"}, kernelfile.Hierarchy{Unified: true, Memory: "."}, ""},
		"v2, no memory":  {kernelfiletest.Tree{"cgroup.controllers": "cpu pids\n"}, kernelfile.Hierarchy{}, "do not account for memory"},
		"v1":             {kernelfiletest.Tree{"memory/memory.stat": "", "pids/tasks": ""}, kernelfile.Hierarchy{Memory: "memory", PIDs: "pids"}, ""},
		"v1, no pids":    {kernelfiletest.Tree{"memory/memory.stat": ""}, kernelfile.Hierarchy{Memory: "memory"}, ""},
		"v1, no memory":  {kernelfiletest.Tree{"pids/tasks": ""}, kernelfile.Hierarchy{}, "no cgroup accounts for memory"},
		"something else": {kernelfiletest.Tree{"README": ""}, kernelfile.Hierarchy{}, "no cgroup accounts for memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mount := c.tree.Plant(t)
			for _, dir := range []*string{&c.want.Memory, &c.want.PIDs} {
				if *dir != "" {
					*dir = filepath.Join(mount, *dir)
				}
			}
			got, err := kernelfile.HierarchyOf(mount)
			if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("got %+v, %v; want %+v, %q", got, err, c.want, c.wantErr)
			}
		})
	}
}
