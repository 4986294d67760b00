package pressure

import (
	"os"
	"testing"
)

// TestFaultFreedMemoryOnCPUListsIsAvailable: near a threshold what a process has freed is available
// although MemAvailable does not show it yet. Lists that cannot be read count nothing, and far from a
// threshold they are not read.
func TestFaultFreedMemoryOnCPUListsIsAvailable(t *testing.T) {
	t.Parallel()
	const shown = 22 * gib // of 24, without 6 MiB of huge pages
	page := int64(os.Getpagesize())
	lists := "  pagesets\n    cpu: 0\n              count:    1000\n              high:     40\n" +
		"    cpu: 1\n              count:    30\n              high:     40\n"
	for name, test := range map[string]struct {
		zoneinfo   string
		definition MemoryDefinition
		threshold  Threshold
		want       int64
	}{
		"below a threshold":            {lists, Kernel, hardMemory(23 * gib), shown + 960*page},
		"within twice its target":      {lists, Kernel, Threshold{Signal: MemoryAvailable, Quantity: Absolute(gib), MinReclaim: Absolute(11 * gib)}, shown + 960*page},
		"twice as far as a threshold":  {lists, Kernel, hardMemory(11 * gib), shown},
		"a threshold of another thing": {lists, Kernel, Threshold{Signal: PIDAvailable, Quantity: Absolute(23 * gib)}, shown},
		"more than there can be":       {"count: 99999999\n", Kernel, hardMemory(23 * gib), 24*gib - 6*mib},
		"lists that cannot be read":    {"count: many\n", Kernel, hardMemory(23 * gib), shown},
		"no lists":                     {"", Kernel, hardMemory(23 * gib), shown},
		"the kubelet's measure":        {lists, WorkingSet, hardMemory(23 * gib), 20*gib - 6*mib},
	} {
		node := v2Tree()
		node["proc/zoneinfo"] = test.zoneinfo
		sample := mustOpen(t, Options{
			HostRoot: node.Plant(t), Signals: []Signal{MemoryAvailable}, MemoryAvailable: test.definition, Thresholds: []Threshold{test.threshold},
		}, fakeSystem()).Sample(moment(0))
		if seen := sample.Of(MemoryAvailable); seen != known(test.want, 24*gib-6*mib) {
			t.Errorf("%s: got %+v, want %d", name, seen, test.want)
		}
	}
}

func TestOOMKills(t *testing.T) {
	t.Parallel()
	const unknown = -1
	for vmstat, want := range map[string]int64{
		"pgfault 7\noom_kill 12\ndrop_pagecache 0\n": 12,
		"pgfault 7\n": unknown, // an older kernel
		directory:     unknown,
	} {
		got, err := OOMKills(tree{"proc/vmstat": vmstat}.Plant(t))
		if err == nil && got != want || (err != nil) != (want == unknown) || err != nil && got != 0 {
			t.Errorf("%q: got %d, %v; want %d", vmstat, got, err, want)
		}
	}
	if kills, err := OOMKills(t.TempDir()); err == nil {
		t.Errorf("a file that is not there reads as %d", kills)
	}
}
