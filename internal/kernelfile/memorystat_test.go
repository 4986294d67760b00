package kernelfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// sums returns anonymous memory, shared memory and inactive page cache, and the kernel's memory, -1 where
// one is not known.
func sums(content string, unified bool) (known [4]int64, err error) {
	s, err := ParseMemoryStat([]byte(content), unified)
	if err != nil {
		return known, err
	}
	for i, f := range []Figure{Anonymous, Shared, InactiveFile} {
		n, fault := s.Sum(f)
		known[i], err = n, errors.Join(err, fault)
	}
	if n, is := s.Of(Kernel); is {
		known[3] = n
	} else {
		known[3] = -1
	}
	if err != nil {
		return [4]int64{}, err
	}
	return known, nil
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
		got, err := sums(tc.content, tc.unified)
		switch {
		case tc.wantErr == "" && (err != nil || got != [4]int64{1, 2, 3, tc.kernel}):
			t.Errorf("%s: got %v, %v", name, got, err)
		case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr) || got != [4]int64{}):
			t.Errorf("%s: got %v, %v; want an error with %q", name, got, err, tc.wantErr)
		}
	}
}

// TestAddedFigures: a sum has the figures that both groups have.
func TestAddedFigures(t *testing.T) {
	t.Parallel()
	parse := func(content string) *MemoryStat {
		s, err := ParseMemoryStat([]byte(content), true)
		if err != nil {
			t.Fatal(err)
		}
		return &s
	}
	sum := parse("anon 1\nfile 20\nshmem 5\nkernel 300\n")
	sum.Add(parse("anon 2\nfile 30\nkernel 400\ninactive_file 7\n"))
	if got := sum.Accounted(); got != 753 {
		t.Errorf("accounted for %d, want 753", got)
	}
	for _, f := range []Figure{Shared, InactiveFile} {
		if n, known := sum.Of(f); known {
			t.Errorf("figure %d is %d, want unknown", f, n)
		}
	}
}

func FuzzMemoryStat(f *testing.F) {
	f.Add([]byte("anon 1\nshmem 2\ninactive_file 3\n"), true)
	f.Add([]byte("anon 1\nkernel 9\nshmem 2\ninactive_file 3\nslab_reclaimable 4\n"), true)
	f.Add([]byte("total_rss 1\ntotal_shmem 2\ntotal_inactive_file 3"), false)
	f.Fuzz(func(t *testing.T, content []byte, unified bool) {
		s, err := ParseMemoryStat(content, unified)
		if err != nil {
			return
		}
		for f, key := range keysOf(unified) {
			n, known := s.Of(Figure(f))
			if known && (key == "" || !strings.Contains(string(content), fmt.Sprintf("%d\n", n)) || !strings.Contains(string(content), key)) {
				t.Errorf("%s%d is not in %q", key, n, content)
			}
		}
	})
}
