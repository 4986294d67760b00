package kernelfile

import (
	"fmt"
	"strings"
	"testing"
)

// figures returns anonymous memory, shared memory, inactive page cache, all and active page cache, and the kernel's
// memory, -1 where that is not known.
func figures(content string, unified bool) ([6]int64, error) {
	s, err := ParseMemoryStat([]byte(content), unified)
	if err != nil {
		return [6]int64{}, err
	}
	if !s.KernelKnown {
		s.Kernel--
	}
	return [6]int64{s.Anonymous, s.Shared, s.InactiveFile, s.PageCache, s.ActiveFile, s.Kernel}, nil
}

func TestMemoryStat(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string
		unified bool
		kernel  int64 // -1 is unknown
		wantErr string
	}{
		"v1":                  {content: "rss 9\nshmem 9\ninactive_file 9\ntotal_rss 1\ntotal_rss_huge 9\ntotal_shmem 2\ntotal_inactive_file 3\n", kernel: -1},
		"v1 with v2's keys":   {content: "total_rss 1\nkernel 9\ntotal_shmem 2\ntotal_inactive_file 3\nslab_reclaimable 1\n", kernel: -1},
		"v2":                  {content: "anon 1\nanon_thp 9\nkernel 7\nkernel_stack 9\nshmem 2\nshmem_thp 9\ninactive_file 3\nslab_reclaimable 2\nslab 9\n", unified: true, kernel: 7},
		"v2, first counts":    {content: "anon 1\nkernel 7\nkernel 9\nshmem 2\nshmem 9\ninactive_file 3\n", unified: true, kernel: 7},
		"v2 before 5.18":      {content: "anon 1\nkernel_stack 9\nshmem 2\ninactive_file 3\nslab_reclaimable 2\n", unified: true, kernel: -1},
		"v2, kernel cut off":  {content: "anon 1\nshmem 2\ninactive_file 3\nkernel 7", unified: true, kernel: -1},
		"kernel is no number": {content: "anon 1\nkernel x\nshmem 2\ninactive_file 3\n", unified: true, wantErr: `line "kernel ": no number`},
		"v2 read as v1":       {content: "anon 1\nshmem 2\ninactive_file 3\n", wantErr: `no line "total_rss "`},
		"v1 read as v2":       {content: "total_rss 1\ntotal_shmem 2\ntotal_inactive_file 3\n", unified: true, wantErr: `no line "anon "`},
		"no shared":           {content: "anon 1\ninactive_file 3\n", unified: true, wantErr: `no line "shmem "`},
		"no cache":            {content: "anon 1\nshmem 2\n", unified: true, wantErr: `no line "inactive_file "`},
		"cut off in a number": {content: "anon 1\nshmem 2\ninactive_file 31", unified: true, wantErr: `no line "inactive_file "`},
		"negative":            {content: "anon -1\nshmem 2\ninactive_file 3\n", unified: true, wantErr: "no number"},
		"overflow":            {content: "anon 1\nshmem 9223372036854775808\ninactive_file 3\n", unified: true, wantErr: "too large"},
		"more than there is":  {content: "anon 1\nshmem 9223372036854775807\ninactive_file 3\n", unified: true, wantErr: "too large"},
		"two numbers":         {content: "anon 1 2\nshmem 2\ninactive_file 3\n", unified: true, wantErr: "no number"},
		"NUL byte":            {content: "anon 1\x00\nshmem 2\ninactive_file 3\n", unified: true, wantErr: "no number"},
	}
	for name, tc := range tests {
		rest := "active_file 9\ntotal_cache 5\ntotal_active_file 4\n"
		if tc.unified {
			rest = "total_cache 9\nfile 5\nactive_file 4\nslab_reclaimable 2\n"
		}
		got, err := figures(rest+tc.content, tc.unified)
		switch {
		case tc.wantErr == "" && (err != nil || got != [6]int64{1, 2, 3, 5, 4, tc.kernel}):
			t.Errorf("%s: got %v, %v", name, got, err)
		case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
			t.Errorf("%s: got %v, %v; want an error with %q", name, got, err, tc.wantErr)
		}
	}
}

// TestMemoryStatIsWhole: each figure is asked for, and one that is missing is an error, but for the kernel's memory.
func TestMemoryStatIsWhole(t *testing.T) {
	t.Parallel()
	for whole, unified := range map[string]bool{
		"total_rss 1\ntotal_cache 1\ntotal_shmem 1\ntotal_inactive_file 1\ntotal_active_file 1\n": false,
		"anon 1\nfile 1\nshmem 1\nactive_file 1\ninactive_file 1\nslab_reclaimable 1\nkernel 1\n": true,
	} {
		if _, err := ParseMemoryStat([]byte(whole), unified); err != nil {
			t.Errorf("%q: %v", whole, err)
		}
		for key := range strings.Lines(whole) {
			_, err := ParseMemoryStat([]byte(strings.Replace(whole, key, "x"+key, 1)), unified)
			if (err == nil) != strings.HasPrefix(key, "kernel") {
				t.Errorf("without %q: %v", key, err)
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
