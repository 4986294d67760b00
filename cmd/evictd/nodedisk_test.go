package main

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// nodeWithFiles is a host with two pods that have a file of 1 MiB each. One of them is a
// static pod, whose directories have another name than its UID.
func nodeWithFiles(t *testing.T) (root string, pods []*nodepods.Pod) {
	t.Helper()
	file := strings.Repeat("x", 1<<20)
	root = kernelfiletest.Tree{
		"var/lib/kubelet/pods/uid-web/volumes/kubernetes.io~empty-dir/cache/file": file,
		"var/lib/kubelet/pods/hash/volumes/kubernetes.io~empty-dir/cache/file":    file,
		"var/log/pods/x": "", "proc/1/mountinfo": "",
	}.Plant(t)
	return root, []*nodepods.Pod{
		{Pod: rank.Pod{UID: "uid-web", Namespace: "shop", Name: "web"}, CgroupUID: "uid-web"},
		{Pod: rank.Pod{UID: "uid-mirror", Namespace: "shop", Name: "proxy", Marks: rank.Marks{Mirror: true}}, CgroupUID: "hash"},
	}
}

// TestDiskSourceFollowsTheConfiguration: an edit of disk.source and of its limits takes effect without a restart, and
// nothing else begins the measurement anew. A running container has a layer and logs, which are unknown where there are none.
func TestDiskSourceFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	root, pods := nodeWithFiles(t)
	pods[0].RunningContainers = []string{strings.Repeat("a", 64)}
	flags := &runFlags{kubeconfig: kubeconfigFor(t, refusing()), nodeName: "node-1", hostRoot: root}
	var inForce atomic.Pointer[config.EvictdConfiguration]
	d := newDisk(clientsFor(t, flags), flags, inForce.Load)
	for i, source := range []config.DiskSource{config.DiskSummary, config.DiskNode, config.DiskNode, config.DiskSummary} {
		c := config.Default()
		c.Disk.Source, c.Disk.CPU = source, strconv.Itoa(100*(i+1))+"m"
		inForce.Store(c)
		before := d.files
		uses, err := d.Measure(t.Context(), pods)
		if source == config.DiskSummary {
			if err == nil || len(uses) > 0 || d.files != nil { // no API server responds here
				t.Errorf("step %d: %+v, %v; want the kubelet to be asked, and no figures of the node's files", i, uses, err)
			}
			continue
		}
		opened := d.files
		_, again := d.Measure(t.Context(), pods)
		if err != nil || again != nil || opened == before || d.files != opened || d.bounds != c.Disk {
			t.Errorf("step %d: the bounds are %+v, want %+v, once: %v, %v", i, d.bounds, c.Disk, err, again)
		}
		runs, other := uses["uid-web"].NodeFS, uses["hash"].NodeFS
		if runs[usage.Layers].BytesKnown || runs[usage.Logs].BytesKnown || runs.Sum().BytesKnown {
			t.Errorf("step %d: what runs uses %+v, want its layer and logs unknown", i, runs)
		}
		for _, use := range []usage.FSUse{runs[usage.Volumes], other.Sum()} {
			if !use.BytesKnown || use.Bytes < 1<<20 || use.Inodes != 2 {
				t.Errorf("step %d: %+v, want a MiB", i, use)
			}
		}
	}
}
