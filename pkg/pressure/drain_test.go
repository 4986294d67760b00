package pressure

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// child is the variable that makes this test's binary use memory: "fill" leaves free pages on the
// first CPU's list, "hog" takes all memory on the second until the kernel ends it.
const child = "EVICTD_MEMORY_CHILD"

// TestCgroup2CPUListsAtAKill prints how much free memory is on the per-CPU lists of the other CPUs when the kernel ends
// a process, by the kernel's own report of the kill: evictd calls it available, because the kernel takes it before.
// It does so when reclaim has freed something and that is taken already, which needs page cache, as every node has it.
// The figures are the kernel's, and no test of evictd's.
func TestCgroup2CPUListsAtAKill(t *testing.T) {
	if as := os.Getenv(child); as != "" {
		useMemory(t, as == "fill")
		return
	}
	if os.Getenv("EVICTD_OWN_MACHINE") == "" {
		t.Skip("SKIP: it takes all memory of the machine; `make test-cgroup2` runs it in a virtual machine")
	}
	longLists(t)
	reclaimOnTheHogsCPU(t)
	must(t, os.WriteFile(filepath.Join(t.TempDir(), "cache"), make([]byte, 64<<20), 0o600))
	unix.Sync()
	must(t, useAs("fill").Run())
	free := onCPULists(t)
	if err := useAs("hog").Run(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the hog ended with %v, not by the kernel", err)
	}
	t.Logf("free on the per-CPU lists: %d MiB before, %d MiB on another CPU's when the kernel ended the process", free/mib, remoteAtTheKill(t)/mib)
}

// onCPULists returns the bytes on the per-CPU lists, with those that they always keep.
func onCPULists(t *testing.T) (sum int64) {
	t.Helper()
	content, err := os.ReadFile("/proc/zoneinfo")
	must(t, err)
	for _, count := range regexp.MustCompile(`\scount: +(\d+)`).FindAllSubmatch(content, -1) {
		pages, err := strconv.ParseInt(string(count[1]), 10, 64)
		must(t, err)
		sum += pages * int64(os.Getpagesize())
	}
	return sum
}

func useAs(what string) *exec.Cmd {
	command := exec.Command(os.Args[0], "-test.run=^TestCgroup2CPUListsAtAKill$")
	command.Env = append(os.Environ(), child+"="+what)
	return command
}

// longLists lets a kernel before 6.7 keep an eighth of a zone on its lists, as later ones do by
// themselves, until the end of the test.
func longLists(t *testing.T) {
	t.Helper()
	const file = "/proc/sys/vm/percpu_pagelist_high_fraction"
	if content, err := os.ReadFile("/proc/zoneinfo"); err == nil && bytes.Contains(content, []byte("high_min")) {
		return
	}
	must(t, os.WriteFile(file, []byte("8"), 0o644))
	t.Cleanup(func() { must(t, os.WriteFile(file, []byte("0"), 0o644)) })
}

// useMemory takes a third of what is available and returns it, or takes all.
func useMemory(t *testing.T, returns bool) {
	t.Helper()
	runtime.LockOSThread()
	var cpu unix.CPUSet
	const block = 16 << 20
	blocks := 1 << 30
	if returns {
		cpu.Set(0)
		sample := mustOpen(t, Options{Signals: []Signal{MemoryAvailable}}, kernel()).Sample(time.Now())
		blocks = int(sample.Of(MemoryAvailable).Available / 3 / block)
	} else {
		cpu.Set(1)
		must(t, os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o644))
	}
	must(t, unix.SchedSetaffinity(0, &cpu))
	var taken [][]byte
	for range blocks {
		memory, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
		must(t, err)
		taken = append(taken, memory)
	}
	for _, memory := range taken {
		must(t, unix.Munmap(memory))
	}
}

// reclaimOnTheHogsCPU lets the kernel's own reclaim put what it frees on the list of the CPU that the hog
// runs on.
func reclaimOnTheHogsCPU(t *testing.T) {
	t.Helper()
	threads, err := filepath.Glob("/proc/[0-9]*/comm")
	must(t, err)
	var cpu unix.CPUSet
	cpu.Set(1)
	for _, path := range threads {
		name, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(name, []byte("kswapd")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		must(t, err)
		must(t, unix.SchedSetaffinity(pid, &cpu))
		return
	}
	t.Fatal("the kernel has no kswapd")
}

// remoteAtTheKill returns the bytes on the lists of the CPUs that the hog did not run on, in all zones, by
// the kernel's last report of a kill (mm/show_mem.c, free_pcp and local_pcp).
func remoteAtTheKill(t *testing.T) (sum int64) {
	t.Helper()
	log := make([]byte, 4<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, log)
	must(t, err)
	last := bytes.LastIndex(log[:n], []byte("Mem-Info:"))
	if last < 0 {
		t.Fatal("the kernel's log has no report of a kill")
	}
	zones := regexp.MustCompile(` free_pcp:(\d+)kB local_pcp:(\d+)kB`).FindAllSubmatch(log[last:n], -1)
	if len(zones) == 0 {
		t.Fatal("the kernel's report has no zones")
	}
	for _, zone := range zones {
		all, err := strconv.ParseInt(string(zone[1]), 10, 64)
		local, err2 := strconv.ParseInt(string(zone[2]), 10, 64)
		must(t, err, err2)
		sum += (all - local) << 10
	}
	return sum
}
