package pressure

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"
)

// TestCgroup2HugepagesReserved: memory that is reserved for huge pages is not available,
// used or not. Both definitions exclude it.
func TestCgroup2HugepagesReserved(t *testing.T) {
	const pages, size, slack = 64, 2 * mib, 16 * mib
	const file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		t.Skip("SKIP: this machine has cgroup v1; `make test-cgroup2` runs it in a virtual machine")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIP: only root may reserve huge pages")
	}
	available := func(definition MemoryDefinition) int64 {
		t.Helper()
		n := mustOpen(t, Options{MemoryAvailable: definition, Signals: []Signal{MemoryAvailable}}, kernel())
		sample := n.Sample(time.Now())
		if seen := sample.Of(MemoryAvailable); seen.State != Known {
			t.Fatalf("%s: %+v", definition, seen)
		}
		return sample.Of(MemoryAvailable).Available
	}
	var before int
	content, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("SKIP: this kernel has no huge pages of 2 MiB: %v", err)
	}
	if _, err := fmt.Sscan(string(content), &before); err != nil {
		t.Fatal(err)
	}
	reserve := func(pages int) {
		t.Helper()
		must(t, os.WriteFile(file, fmt.Append(nil, pages), 0o644))
		// The kernel reserves as many as it finds, and calls that a success.
		if content, err := os.ReadFile(file); err != nil || string(bytes.TrimSpace(content)) != fmt.Sprint(pages) {
			t.Fatalf("requested %d huge pages, there are %q, %v", pages, content, err)
		}
	}
	t.Cleanup(func() { reserve(before) })
	about := func(what string, got, want int64) {
		t.Helper()
		t.Logf("%s: %d MiB", what, got/mib)
		if got < want-slack || got > want+slack {
			t.Errorf("%s: %d MiB, which is not about %d MiB", what, got/mib, want/mib)
		}
	}

	// The kernel drains its per-CPU lists for a reservation. What they hold is not in MemAvailable, and would
	// be there after the first.
	reserve(before + pages)
	reserve(before)
	byKernel, byWorkingSet := available(Kernel), available(WorkingSet)
	reserve(before + pages)
	about("memory.available (kernel) fell by", byKernel-available(Kernel), pages*size)
	about("memory.available (workingSet) fell by", byWorkingSet-available(WorkingSet), pages*size)
	reserve(before)
	about("memory.available (kernel), freed, differs by", byKernel-available(Kernel), 0)
	about("memory.available (workingSet), freed, differs by", byWorkingSet-available(WorkingSet), 0)
}
