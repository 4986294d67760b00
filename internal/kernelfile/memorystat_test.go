package kernelfile

import (
	"fmt"
	"strings"
	"testing"
)

// TestMemoryStat: each figure is that of its line. One whose line is missing, or no number, is an error, but for the
// kernel's memory, which is not known then.
func TestMemoryStat(t *testing.T) {
	t.Parallel()
	v1 := MemoryStat{Anonymous: 1, Shared: 2, InactiveFile: 3, ActiveFile: 4, PageCache: 5}
	old := v1
	old.SlabReclaimable = 6
	v2 := old
	v2.Kernel, v2.KernelKnown = 7, true
	const (
		of1 = "rss 9\nshmem 9\ninactive_file 9\ntotal_rss 1\ntotal_rss_huge 9\ntotal_shmem 2\ntotal_inactive_file 3\ntotal_active_file 4\ntotal_cache 5\n"
		of2 = "anon 1\nanon_thp 9\nkernel_stack 9\nshmem 2\nshmem_thp 9\ninactive_file 3\nactive_file 4\nfile 5\nslab_reclaimable 6\nslab 9\n"
	)
	for name, test := range map[string]struct {
		content string
		unified bool
		want    MemoryStat // zero for an error
	}{
		"v1":                  {of1, false, v1},
		"v1 with v2's keys":   {of1 + "kernel 9\nslab_reclaimable 9\n", false, v1},
		"v2":                  {of2 + "total_cache 9\nkernel 7\n", true, v2},
		"v2 before 5.18":      {of2, true, old},
		"v2, kernel cut off":  {of2 + "kernel 7", true, old},
		"kernel is no number": {of2 + "kernel x\n", true, MemoryStat{}},
		"v2 read as v1":       {of2, false, MemoryStat{}},
	} {
		got, err := ParseMemoryStat([]byte(test.content), test.unified)
		if (err == nil) != (test.want != MemoryStat{}) || err == nil && got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
		for line := range strings.Lines(test.content) {
			want := test.want
			if strings.HasPrefix(line, "kernel ") {
				want.Kernel, want.KernelKnown = 0, false
			}
			got, err := ParseMemoryStat([]byte(strings.Replace("\n"+test.content, "\n"+line, "\nx"+line, 1)), test.unified)
			if err == nil && got != want && test.want != (MemoryStat{}) {
				t.Errorf("%s, without %q: %+v", name, line, got)
			}
		}
	}
}

// TestAddedFigures: a sum is one of all figures.
func TestAddedFigures(t *testing.T) {
	t.Parallel()
	sum := MemoryStat{
		Anonymous: 1, PageCache: 20, Shared: 3, InactiveFile: 4, ActiveFile: 5, SlabReclaimable: 6, Kernel: 300, KernelKnown: true,
	}
	other := sum
	sum.Add(&other)
	want := MemoryStat{
		Anonymous: 2, PageCache: 40, Shared: 6, InactiveFile: 8, ActiveFile: 10, SlabReclaimable: 12, Kernel: 600, KernelKnown: true,
	}
	if got := sum.Accounted(); sum != want || got != 642 {
		t.Errorf("%+v accounts for %d, want 642 of %+v", sum, got, want)
	}
}

func FuzzMemoryStat(f *testing.F) {
	f.Add([]byte("anon 1\nfile 5\nshmem 2\ninactive_file 3\nactive_file 4\nslab_reclaimable 4\n"), true)
	f.Add([]byte("anon 1\nkernel 9\nfile 5\nshmem 2\ninactive_file 3\nactive_file 4\nslab_reclaimable 4\n"), true)
	f.Add([]byte("total_rss 1\ntotal_cache 5\ntotal_shmem 2\ntotal_active_file 4\ntotal_inactive_file 3"), false)
	f.Fuzz(func(t *testing.T, content []byte, unified bool) {
		s, err := ParseMemoryStat(content, unified)
		if err != nil {
			return
		}
		read := map[string]int64{
			"total_rss ": s.Anonymous, "total_cache ": s.PageCache, "total_shmem ": s.Shared,
			"total_inactive_file ": s.InactiveFile, "total_active_file ": s.ActiveFile,
		}
		if unified {
			read = map[string]int64{
				"anon ": s.Anonymous, "file ": s.PageCache, "shmem ": s.Shared,
				"inactive_file ": s.InactiveFile, "active_file ": s.ActiveFile, "slab_reclaimable ": s.SlabReclaimable,
			}
		}
		if s.KernelKnown {
			read["kernel "] = s.Kernel
		}
		for key, n := range read {
			if n < 0 || !strings.Contains(string(content), fmt.Sprintf("%d\n", n)) || !strings.Contains(string(content), key) {
				t.Errorf("%s%d is not in %q", key, n, content)
			}
		}
	})
}
