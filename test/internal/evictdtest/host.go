package evictdtest

import (
	"errors"
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
	meminfo  = "proc/meminfo"
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
	h := EmptyHost(tb)
	must(tb, h.fill())
	return h
}

// EmptyHost returns a node without files.
func EmptyHost(tb testing.TB) *Host {
	tb.Helper()
	return &Host{Root: filepath.Join(tb.TempDir(), "host"), t: tb}
}

// MakeHost is [NewHost] without a test, below a folder: the node stays as it is.
func MakeHost(root string) (*Host, error) {
	h := &Host{Root: root}
	return h, h.fill()
}

// fill writes the files of a node without pods.
func (h *Host) fill() error {
	h.available = totalMiB / 2
	files := filesOfGroup(kubepods, 0)
	files["sys/fs/cgroup/cgroup.controllers"] = "cpu memory pids\n"
	files[kubepods+"/memory.max"] = "max\n"
	files["var/lib/kubelet/pods"] = ""
	files["proc/sys/kernel/random/boot_id"] = "8b3a1f0e-6f1f-4c5e-9d2b-1a2b3c4d5e6f\n"
	files[meminfo] = memory(totalMiB*Mebibyte, h.available*Mebibyte)
	for name, text := range files {
		if err := h.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// Write replaces a file's text in place, as the kernel does: evictd keeps its files open. All texts of
// a file that changes while evictd runs have the same length, so that a read never returns a partial one.
func (h *Host) Write(name, text string) {
	h.t.Helper()
	must(h.t, h.write(name, text))
}

func (h *Host) write(name, text string) error {
	path := filepath.Join(h.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making a folder of the host: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600) //nolint:gosec // below the test's own folder
	if err != nil {
		return fmt.Errorf("opening a file of the host: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is written at once
	_, err = file.WriteAt([]byte(text), 0)
	return errors.Join(err, file.Truncate(int64(len(text))))
}

// Group creates a cgroup of version 2 that holds so many bytes.
func (h *Host) Group(name string, holds int64) {
	h.t.Helper()
	for file, text := range filesOfGroup(name, holds) {
		h.Write(file, text)
	}
}

func filesOfGroup(name string, holds int64) map[string]string {
	return map[string]string{
		name + "/memory.current": fmt.Sprintln(holds),
		name + "/memory.stat":    MemoryStat(holds),
		name + "/pids.current":   "1\n",
	}
}

// MemoryStat is the file of that name, with so many bytes of anonymous memory.
func MemoryStat(anon int64) string {
	return fmt.Sprintf("anon %d\nfile 0\nshmem 0\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\n", anon)
}

func groupOf(pod *corev1.Pod) string {
	return kubepods + "/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(string(pod.UID), "-", "_") + ".slice"
}

// Free sets MemAvailable, in MiB.
func (h *Host) Free(available int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.available = available
	h.Memory(totalMiB*Mebibyte, available*Mebibyte)
}

// Memory sets MemTotal and MemAvailable, in bytes.
func (h *Host) Memory(total, available int64) {
	h.t.Helper()
	h.Write(meminfo, memory(total, available))
}

func memory(total, available int64) string {
	return fmt.Sprintf("MemTotal: %14d kB\nMemFree: %14d kB\nMemAvailable: %14d kB\nActive(anon): %14d kB\n",
		total>>10, available>>10, available>>10, (total-available)>>10) +
		"Inactive(anon): 0 kB\nCached: 65536 kB\nBuffers: 1024 kB\nShmem: 1024 kB\nSlab: 2048 kB\nSReclaimable: 1024 kB\n" +
		"SUnreclaim: 1024 kB\nPageTables: 1024 kB\nHugePages_Total: 0\nHugepagesize: 2048 kB\n"
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
