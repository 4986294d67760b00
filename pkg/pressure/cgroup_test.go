package pressure

import (
	"maps"
	"math"
	"strconv"
	"testing"
	"time"
)

func closeAll(g *memoryCgroup) {
	g.stat.Close()
	g.usage.Close()
	g.limit.Close()
}

func TestMemoryCgroup(t *testing.T) {
	t.Parallel()
	const group = "/kubepods"
	v1 := func(usage, limit, inactive string) tree {
		all := tree{"memory/memory.stat": "cache 1\n"}
		maps.Copy(all, group1("memory/kubepods", usage, limit, inactive))
		return all
	}
	v2 := func(usage, limit, inactive string) tree {
		all := tree{"cgroup.controllers": "memory\n"}
		maps.Copy(all, group2("kubepods", usage, limit, inactive))
		return all
	}
	type memory struct{ used, limit int64 }
	tests := map[string]struct {
		mount tree
		want  memory
		fails bool
	}{
		"v1":                                 {mount: v1("1000", "5000", "300"), want: memory{700, 5000}},
		"v1, more inactive cache than usage": {mount: v1("1000", "5000", "1001"), want: memory{0, 5000}},
		"v1, over its limit":                 {mount: v1("9000", "5000", "0"), want: memory{9000, 5000}},
		"v1, no limit":                       {mount: v1("1000", "9223372036854771712", "300"), want: memory{700, 9223372036854771712}},
		"v1, the largest limit":              {mount: v1("1000", "4611686018427387904", "0"), want: memory{1000, 1 << 62}},
		"v1, above the largest limit":        {mount: v1("1000", "4611686018427387905", "0"), want: memory{1000, 1<<62 + 1}},
		"v1, uses nothing":                   {mount: v1("0", "5000", "0"), fails: true},
		"v1, limit 0":                        {mount: v1("1000", "0", "0"), fails: true},
		"v1, limit max":                      {mount: v1("1000", "max", "0"), fails: true},
		"v1, an impossible figure":           {mount: v1("1000", "5000", "9223372036854775807"), fails: true},
		"v2":                                 {mount: v2("1000", "5000", "300"), want: memory{700, 5000}},
		"v2, no limit":                       {mount: v2("1000", "max", "300"), want: memory{700, math.MaxInt64}},
		"v2, uses nothing":                   {mount: v2("0", "5000", "0"), fails: true},
		"v2, usage max":                      {mount: v2("max", "5000", "0"), fails: true},
	}
	for name, tc := range tests {
		g, err := findMemoryCgroup(tc.mount.Plant(t), group, WorkingSet)
		if err != nil {
			t.Fatal(err)
		}
		used, err := g.used(make([]byte, fileMax))
		limit, errLimit := g.limited(make([]byte, fileMax))
		if fails := err != nil || errLimit != nil; fails != tc.fails || !fails && (memory{used, limit}) != tc.want {
			t.Errorf("%s: got %d of %d, %v, %v; want %+v, failing %t", name, used, limit, err, errLimit, tc.want, tc.fails)
		}
		closeAll(g)
	}
}

// TestRootOfV2: the real root has no memory.current and the kubelet takes anonymous
// memory plus page cache; the root of a cgroup namespace is a group like others.
func TestRootOfV2(t *testing.T) {
	t.Parallel()
	onHost := tree{"cgroup.controllers": "memory\n", "memory.stat": "anon 1000\nfile 2000\ninactive_file 500\n"}
	namespaced := maps.Clone(onHost)
	namespaced["memory.current"] = "3700\n"
	used := func(mount tree) (int64, error) {
		g, err := findMemoryCgroup(mount.Plant(t), "/", WorkingSet)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(g)
		return g.used(make([]byte, fileMax))
	}
	for name, tc := range map[string]struct {
		mount tree
		want  int64
	}{"on the host": {onHost, 2500}, "in a namespace": {namespaced, 3200}} {
		if got, err := used(tc.mount); err != nil || got != tc.want {
			t.Errorf("%s: got %d, %v; want a working set of %d", name, got, err, tc.want)
		}
	}
	for _, stat := range []string{"anon 0\nfile 0\ninactive_file 0\n", "anon 1\nfile 1\n", "file 1\ninactive_file 0\n", "anon 1\ninactive_file 0\n"} {
		if got, err := used(tree{"cgroup.controllers": "memory\n", "memory.stat": stat}); err == nil {
			t.Errorf("memory.stat %q reads as %d", stat, got)
		}
	}
}

// TestAllocatable: by the kernel's definition page cache is not used, nor are slabs that give way on
// version 2 and kernel memory on version 1. Without a limit there is no such signal, nor with one of all the
// memory where memory.available has the same thresholds.
func TestAllocatable(t *testing.T) {
	t.Parallel()
	v1 := func(limit string) tree {
		all := v1Tree()
		maps.Copy(all, group1("sys/fs/cgroup/memory/kubepods", "9000", limit, "400"))
		return all
	}
	v2 := func(limit string) tree {
		all := v2Tree()
		maps.Copy(all, group2("sys/fs/cgroup/kubepods", "9000", limit, "400"))
		return all
	}
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
