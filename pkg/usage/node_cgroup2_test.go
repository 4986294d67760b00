package usage

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/testing/cgrouptest"
	"github.com/evictd/evictd/pkg/pressure"
)

// This file contains the common parts of the scenarios of `make test-cgroup2`: real pods on
// a real cgroup v2, as this package and pkg/pressure see them. They are here because this
// package's tests have a process to put into a pod.

const mib = int64(1) << 20

// How far a figure may differ from what a process was told to allocate.
const (
	// podSlack is the process's own memory, its page tables and what the kernel
	// charges in batches.
	podSlack = 8 * mib
	// nodeSlack is how much the rest of the machine may change while a scenario runs.
	nodeSlack = 24 * mib
)

// A pod with this limit thrashes when it reads a file of that many MiB repeatedly: the
// kernel has always just dropped the part that it reads next.
const (
	thrashLimit = 48 * mib
	thrashFile  = 60
)

// needCgroup2 skips the test on version 1.
func needCgroup2(tb testing.TB) {
	tb.Helper()
	if h, err := kernelfile.HierarchyOf(cgroupMount); err == nil && !h.Unified {
		tb.Skip("SKIP: this machine has cgroup v1; `make test-cgroup2` runs it in a virtual machine")
	}
}

// newNode2 makes a kubepods cgroup of v2 with a memory limit, or skips the test.
func newNode2(tb testing.TB, limit int64) *realNode {
	tb.Helper()
	needCgroup2(tb)
	n := newRealNode(tb)
	if _, err := os.Stat("/proc/pressure/memory"); err != nil {
		tb.Skipf("SKIP: this kernel has no pressure-stall information: %v", err)
	}
	n.set(n.kubepods, "memory.max", limit)
	return n
}

// set writes a number to a file of a group.
func (n *realNode) set(group, file string, value int64) {
	n.Helper()
	err := os.WriteFile(filepath.Join(cgroupMount, group, file), strconv.AppendInt(nil, value, 10), 0o644)
	if err != nil && (file != "memory.swap.max" || !errors.Is(err, os.ErrNotExist)) {
		n.Fatal(err)
	}
}

// figure returns the number after a key in a group's file.
func (n *realNode) figure(group, file, word string) int64 {
	n.Helper()
	return figureOf(n, filepath.Join(cgroupMount, group, file), word)
}

func figureOf(tb testing.TB, path, word string) int64 {
	tb.Helper()
	content, err := os.ReadFile(path)
	must(tb, err)
	_, after, found := strings.Cut(string(content), word)
	number, err := strconv.ParseInt(strings.Fields(after + " -")[0], 10, 64)
	if !found || err != nil {
		tb.Fatalf("%s has no number after %q: %q", path, word, content)
	}
	return number
}

// stalled returns the total time for which some task of a group, or of the machine for "",
// has waited for memory.
func (n *realNode) stalled(group string) time.Duration {
	n.Helper()
	path := filepath.Join(cgroupMount, group, "memory.pressure")
	if group == "" {
		path = "/proc/pressure/memory"
	}
	return time.Duration(figureOf(n, path, " total=")) * time.Microsecond
}

// pod makes a burstable pod with a container and returns the pod's cgroup and a
// process in it.
func (n *realNode) pod(uid string) (string, *cgrouptest.Process) {
	n.Helper()
	pod := n.kubepods + "/burstable/pod" + uid
	return pod, n.Start(pod + "/container")
}

// sample reads the node with evictd's own sampler; both memory signals must be known.
func (n *realNode) sample(definition pressure.MemoryDefinition) pressure.Sample {
	n.Helper()
	sample := n.sampleAny(definition)
	for _, signal := range []pressure.Signal{pressure.MemoryAvailable, pressure.AllocatableMemoryAvailable} {
		if seen := sample.Of(signal); seen.State != pressure.Known {
			n.Fatalf("%s is %+v", signal, seen)
		}
	}
	return sample
}

// sampleAny is sample where one may be unknown.
func (n *realNode) sampleAny(definition pressure.MemoryDefinition) pressure.Sample {
	n.Helper()
	reader, err := pressure.Open(pressure.Options{
		Kubepods: n.kubepods, MemoryAvailable: definition,
		Signals: []pressure.Signal{pressure.MemoryAvailable, pressure.AllocatableMemoryAvailable},
	})
	must(n, err)
	defer reader.Close()
	return reader.Sample(time.Now())
}

// judged fails the test unless a hard threshold at a line is met, or is not, in the sample.
func judged(tb testing.TB, what string, signal pressure.Signal, line int64, sample pressure.Sample, want bool) {
	tb.Helper()
	verdict := pressure.NewJudge([]pressure.Threshold{{Signal: signal, Quantity: pressure.Absolute(line), Hard: true}}, 0).Judge(&sample)
	holds := len(verdict.Pressures) > 0
	tb.Logf("%s: pressure %t", what, holds)
	if verdict.Stale || len(verdict.Unknown) > 0 || holds != want {
		tb.Errorf("%s: the verdict is %+v; want pressure %t", what, verdict, want)
	}
}

// near fails the test when bytes differ from want by more than the slack.
func near(tb testing.TB, what string, bytes, want, slack int64) {
	tb.Helper()
	tb.Logf("%s: %d MiB", what, bytes/mib)
	if bytes < want-slack || bytes > want+slack {
		tb.Errorf("%s: %d MiB, which is not about %d MiB", what, bytes/mib, want/mib)
	}
}

// podOf returns what one pod uses.
func podOf(tb testing.TB, tree *Tree, uid string) Pod {
	tb.Helper()
	pods, err := tree.Collect(nil, nil)
	must(tb, err)
	for _, pod := range pods {
		if pod.UID == uid {
			return pod
		}
	}
	tb.Fatalf("no pod %s among %+v", uid, pods)
	return Pod{}
}

// disk returns a directory on a disk: files in memory would not be read again. The directory for
// temporary files may be in memory; /var/tmp outlives a restart of the machine.
func disk(tb testing.TB) string {
	tb.Helper()
	for _, parent := range []string{os.TempDir(), "/var/tmp"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(parent, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(parent, "evictd-test-") //nolint:usetesting // not in the directory for temporary files
		must(tb, err)
		tb.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	tb.Skip("SKIP: the directory for temporary files is in memory; TMPDIR names one on a disk")
	return ""
}
