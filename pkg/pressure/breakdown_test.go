package pressure

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/kernelfile/kernelfiletest"
)

func TestBreakdown(t *testing.T) {
	t.Parallel()
	root := procTree().Plant(t)
	n := mustOpen(t, Options{HostRoot: root}, fakeSystem())
	got, err := n.Breakdown(t.Context())
	want := MemoryBreakdown{
		Total: 24 * gib, Available: 22 * gib,
		Cached: 4673472 * kib, Shared: 8788 * kib, Slab: 374392 * kib, SlabReclaimable: 333520 * kib,
		Hugepages: 6 * mib, SwapTotal: 2 * gib, SwapFree: gib,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, breakdown (-want +got):\n%s", err, diff)
	}
	for name, spoil := range spoils() {
		path := filepath.Join(root, "proc/meminfo")
		kernelfiletest.Put(t, path, meminfoText)
		spoil(t, path)
		if got, err := n.Breakdown(t.Context()); err == nil || got != (MemoryBreakdown{}) {
			t.Errorf("%s: got %+v, %v; want an error and no figures", name, got, err)
		}
	}
	for _, content := range []string{"MemTotal: 0 kB\n" + meminfoText[28:], "MemTotal: 1 kB\nMemAvailable: 1 kB\n"} {
		kernelfiletest.Put(t, filepath.Join(root, "proc/meminfo"), content)
		if got, err := n.Breakdown(t.Context()); err == nil {
			t.Errorf("got %+v from %.40q", got, content)
		}
	}
}
