package evictdtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Mebibyte is the number of bytes of one.
const Mebibyte = 1 << 20

const (
	totalMiB = 16 << 10
	kubepods = "sys/fs/cgroup/kubepods.slice"
)

// Host is a node's files as evictd reads them: the API server is real in these tests, and the tests
// set the node's figures.
type Host struct {
	Root string

	t         testing.TB
	mu        sync.Mutex
	available int64 // MiB
}

// NewHost returns a node of 16 GiB, half of which are available.
func NewHost(tb testing.TB) *Host {
	tb.Helper()
	h := &Host{t: tb, Root: tb.TempDir()}
	h.Write("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
	h.group(kubepods, 0)
	h.Write(kubepods+"/memory.max", "max\n")
	h.Write("var/lib/kubelet/pods", "")
	h.Write("proc/sys/kernel/random/boot_id", "8b3a1f0e-6f1f-4c5e-9d2b-1a2b3c4d5e6f\n")
	h.Calm()
	return h
}

// Write replaces a file's text in place, as the kernel does: evictd keeps its files open. All texts of
// one file have the same length, so that a read never returns a partial one.
func (h *Host) Write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600) //nolint:gosec // below the test's own folder
	if err != nil {
		h.t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it is written at once
	if _, err = file.WriteAt([]byte(text), 0); err != nil {
		h.t.Fatal(err)
	}
}

// Run creates a pod's cgroup with that memory usage in MiB.
func (h *Host) Run(pod *corev1.Pod, holds int64) {
	h.t.Helper()
	h.group(groupOf(pod), holds)
}

func (h *Host) group(name string, holds int64) {
	h.t.Helper()
	h.Write(name+"/memory.current", fmt.Sprintf("%d\n", holds*Mebibyte))
	h.Write(name+"/memory.stat", fmt.Sprintf("anon %d\nfile 0\nshmem 0\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\n", holds*Mebibyte))
	h.Write(name+"/pids.current", "1\n")
}

func groupOf(pod *corev1.Pod) string {
	return kubepods + "/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(string(pod.UID), "-", "_") + ".slice"
}

// Calm makes half of the memory available.
func (h *Host) Calm() { h.Free(totalMiB / 2) }

// Free sets MemAvailable, in MiB.
func (h *Host) Free(available int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.available = available
	h.Write("proc/meminfo", fmt.Sprintf("MemTotal: %12d kB\nMemFree: %12d kB\nMemAvailable: %12d kB\nCached: 0 kB\nSlab: 0 kB\n",
		int64(totalMiB<<10), available<<10, available<<10))
}

// End reclaims a pod's memory and removes its cgroup, in the kernel's order. In the other order evictd
// would see the cgroup gone before its memory is free.
func (h *Host) End(pod *corev1.Pod, held int64) {
	h.mu.Lock()
	available := h.available + held
	h.mu.Unlock()
	h.Free(available)
	if err := os.RemoveAll(filepath.Join(h.Root, groupOf(pod))); err != nil {
		h.t.Error(err)
	}
}
