package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// The explanation of a pod on this node includes the figures of its cgroup below
// --host-root, which ones are none or unknown, and why nothing is known. For a record it has
// no such part.
func TestWhyTellsTheDetailOfALivePod(t *testing.T) {
	t.Parallel()
	const key, group = "shop/web-6b7c9-9s2hw", "sys/fs/cgroup/kubepods/burstable/pod"
	seen, err := snapshot.Load(example)
	if err != nil {
		t.Fatal(err)
	}
	uid := ""
	for _, pod := range seen.Pods {
		if pod.Key() == key {
			uid = pod.CgroupUID
		}
	}
	root := kernelfiletest.Tree{
		"sys/fs/cgroup/cgroup.controllers": "memory pids\n",
		group + uid + "/memory.stat":       "anon 1073741824\nfile 0\nkernel 2097152\npagetables 1048576\nsock 4096\n",
		group + uid + "/memory.events":     "oom_kill 2\n",
	}.Plant(t)
	flags := &whereFlags{hostRoot: root}
	tree, err := usage.Open(flags.host(cgroupMount), "kubepods")
	if err != nil {
		t.Fatal(err)
	}
	live := &liveNode{host: &host{tree: tree}}
	gone := &liveNode{host: &host{tree: mustTree(t)}}
	for name, test := range map[string]struct {
		source nodeSource
		signal pressure.Signal
		want   string
	}{
		"live":   {live, pressure.MemoryAvailable, "\nIts cgroup tells: anonymous 1.0Gi, kernel memory 2.0Mi, page tables 1.0Mi, sockets 4.0Ki, OOM kills so far 2. None, or not known: files, tmpfs and shared memory among them, kernel stacks, slab, swap.\n"},
		"gone":   {gone, pressure.MemoryAvailable, "\nWhat its memory is used by is not known: "},
		"disk":   {live, pressure.NodeFSAvailable, ""},
		"record": {&recordedNode{seen}, pressure.MemoryAvailable, ""},
	} {
		r := &ranker{signal: test.signal, source: &recordedNode{seen}}
		sight, err := r.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sight.readDetail(test.source, key)
		var story bytes.Buffer
		if err := writeWhy(&story, sight, key); err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(story.String(), "cgroup") || strings.Contains(story.String(), "used by")
		if !strings.Contains(story.String(), test.want) || said != (test.want != "") {
			t.Errorf("%s: %s", name, story.String())
		}
	}
}

// mustTree returns the cgroups of a node without pods.
func mustTree(t *testing.T) *usage.Tree {
	t.Helper()
	mount := kernelfiletest.Tree{"cgroup.controllers": "memory\n", filepath.Join("kubepods", "burstable"): kernelfiletest.Directory}.Plant(t)
	tree, err := usage.Open(mount, "kubepods")
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
