package pressure

import (
	"testing"
)

func TestOOMKills(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		vmstat string
		want   int64
		ok     bool
	}{
		"counted":          {"pgfault 7\noom_kill 12\ndrop_pagecache 0\n", 12, true},
		"an older kernel":  {"pgfault 7\n", 0, false},
		"cut in a number":  {"pgfault 7\noom_kill 12", 0, false},
		"no number":        {"oom_kill x\n", 0, false},
		"an empty file":    {"", 0, false},
		"another key that": {"oom_kill_total 3\n", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := procTree()
			node["proc/vmstat"] = test.vmstat
			got, err := OOMKills(node.Plant(t))
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("got %d, %v; want %d, known: %t", got, err, test.want, test.ok)
			}
		})
	}
	if kills, err := OOMKills(t.TempDir()); err == nil {
		t.Errorf("a file that is not there reads as %d", kills)
	}
}
