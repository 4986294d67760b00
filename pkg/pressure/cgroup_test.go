package pressure

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// TestMemoryCgroup: the real root of version 2 has no memory.current, and the kubelet takes anonymous memory plus
// page cache; the root of a cgroup namespace is a group like others.
func TestMemoryCgroup(t *testing.T) {
	t.Parallel()
	group := func(v kernelfiletest.Version, usage int64, limit string, inactive int64) tree {
		mount := v.Mount()
		v.Add(mount, "kubepods", kernelfiletest.Group{Usage: usage, Limit: limit, InactiveFile: inactive})
		return mount
	}
	const v1, v2 = kernelfiletest.V1, kernelfiletest.V2
	unread := group(v2, 0, "5000", 0)
	unread["kubepods/memory.current"] = "max\n"
	root := func(stat string) tree {
		stat += "shmem 0\nactive_file 0\nslab_reclaimable 9\n"
		return tree{"cgroup.controllers": "memory\n", "memory.stat": stat, "memory.max": "max\n"}
	}
	namespaced := root("anon 1000\nfile 2000\ninactive_file 500\n")
	namespaced["memory.current"] = "3700\n"
	const unlimited = math.MaxInt64
	type memory struct{ used, limit int64 } // the zero value is a fault
	for name, tc := range map[string]struct {
		mount tree
		group string
		want  memory
	}{
		"v1, more inactive cache than usage": {group(v1, 1000, "5000", 1001), "/kubepods", memory{0, 5000}},
		"v1, uses nothing":                   {group(v1, 0, "5000", 0), "/kubepods", memory{}},
		"v1, limit 0":                        {group(v1, 1000, "0", 0), "/kubepods", memory{}},
		"v1, limit max":                      {group(v1, 1000, "max", 0), "/kubepods", memory{}},
		"v1, an impossible figure":           {group(v1, 1000, "5000", 9223372036854775807), "/kubepods", memory{}},
		"v2, uses nothing":                   {group(v2, 0, "5000", 0), "/kubepods", memory{}},
		"v2, usage max":                      {unread, "/kubepods", memory{}},
		"v2, the host's root":                {root("anon 1000\nfile 2000\ninactive_file 500\n"), "/", memory{2500, unlimited}},
		"v2, the root of a namespace":        {namespaced, "/", memory{3200, unlimited}},
		"v2, a root that uses nothing":       {root("anon 0\nfile 0\ninactive_file 0\n"), "/", memory{}},
	} {
		g, err := findMemoryCgroup(tc.mount.Plant(t), tc.group, WorkingSet)
		must(t, err)
		used, err := g.used(make([]byte, fileMax))
		limit, errLimit := g.limited(make([]byte, fileMax))
		if fails := err != nil || errLimit != nil; fails != (tc.want == memory{}) || !fails && (memory{used, limit}) != tc.want {
			t.Errorf("%s: got %d of %d, %v, %v; want %+v", name, used, limit, err, errLimit, tc.want)
		}
		g.stat.Close()
		g.usage.Close()
		g.limit.Close()
	}
}

// TestAllocatable: by the kernel's definition page cache is not used, nor are slabs that give way on
// version 2 and kernel memory on version 1. Without a limit there is no such signal, nor with one of all the
// memory where memory.available has the same thresholds.
func TestAllocatable(t *testing.T) {
	t.Parallel()
	kubepods := func(v kernelfiletest.Version) func(limit string) tree {
		return func(limit string) tree {
			return nodeOf(v, "kubepods", kernelfiletest.Group{Usage: 9000, InactiveFile: 400, Limit: limit})
		}
	}
	v1, v2 := kubepods(kernelfiletest.V1), kubepods(kernelfiletest.V2)
	const all = 24*gib - 6*mib // without huge pages
	text := func(limit int64) string { return strconv.FormatInt(limit, 10) }
	hard := func(signal Signal, share float32) Threshold {
		return Threshold{Signal: signal, Quantity: Fraction(share), Hard: true}
	}
	defaults := []Threshold{
		hard(MemoryAvailable, .05), hard(AllocatableMemoryAvailable, .05),
		{Signal: MemoryAvailable, Quantity: Fraction(.1), Grace: time.Second},
		{Signal: AllocatableMemoryAvailable, Quantity: Fraction(.1), Grace: time.Second},
	}
	for name, test := range map[string]struct {
		node       tree
		definition MemoryDefinition
		want       Observation
		thresholds []Threshold
	}{
		"v1":                              {v1("20000"), Kernel, known(20000-9000+400+3+5, 20000), defaults},
		"v1, by the working set":          {v1("20000"), WorkingSet, known(20000-9000+400, 20000), defaults},
		"v2":                              {v2("20000"), Kernel, known(20000-9000+400+3+2, 20000), defaults},
		"v2, by the working set":          {v2("20000"), WorkingSet, known(20000-9000+400, 20000), defaults},
		"the largest limit":               {v1("4611686018427387904"), WorkingSet, known(1<<62-9000+400, 1<<62), nil},
		"above the largest limit":         {v1("4611686018427387905"), WorkingSet, absent(errUnlimited), nil},
		"over its limit":                  {v2("5000"), WorkingSet, known(5000-9000+400, 5000), nil},
		"v1, no limit":                    {v1("9223372036854771712"), Kernel, absent(errUnlimited), nil},
		"v2, no limit":                    {v2("max"), Kernel, absent(errUnlimited), nil},
		"a limit below the node's memory": {v2(text(all - 1)), WorkingSet, known(all-1-9000+400, all-1), defaults},
		"a limit of all the memory":       {v2(text(all)), Kernel, absent(errUnlimited), defaults},
		"huge pages in the limit":         {v1(text(24 * gib)), WorkingSet, absent(errUnlimited), defaults},
		"all the memory, one that is met before": {
			v2(text(all)), WorkingSet, known(all-9000+400, all), []Threshold{hard(MemoryAvailable, .05), hard(AllocatableMemoryAvailable, .06)},
		},
		"all the memory, one that does not wait": {v2(text(all)), WorkingSet, known(all-9000+400, all), append(defaults[2:3:3], defaults[1])},
		"all the memory, and no other threshold": {v2(text(all)), WorkingSet, known(all-9000+400, all), defaults[1:2]},
		"all the memory, and no threshold":       {v2(text(all)), WorkingSet, known(all-9000+400, all), nil},
	} {
		sample := mustOpen(t, Options{
			HostRoot: test.node.Plant(t), Kubepods: "/kubepods", Signals: []Signal{AllocatableMemoryAvailable}, MemoryAvailable: test.definition, Thresholds: test.thresholds,
		}, fakeSystem()).Sample(moment(0))
		if got := sample.Of(AllocatableMemoryAvailable); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
