package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// overfill makes a process in a group exceed the group's limit, and waits until the kernel
// has killed it.
func overfill(n *realNode, group string) {
	n.tb.Helper()
	p := start(n.tb)
	p.do("join 0 %s", strings.Join(n.procs(group), " "))
	if _, err := fmt.Fprintln(p.orders, "anonymous 100"); err != nil {
		n.tb.Fatal(err)
	}
	if err := p.command.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		n.tb.Fatalf("beyond the limit the process ends with %v, not by the kernel", err)
	}
}

// follow reports kills to the channel until the returned function is called.
func follow(tb testing.TB, k *OOMKills) (told chan OOMKill, faults chan error, end func()) {
	tb.Helper()
	told, faults = make(chan OOMKill, 100), make(chan error, 100)
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx, func(kill OOMKill) { told <- kill }, func(err error) { faults <- err })
	}()
	end = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			tb.Error("it does not end")
		}
	}
	tb.Cleanup(end)
	return told, faults, end
}

// next returns the next report.
func next[T any](tb testing.TB, from <-chan T) T {
	tb.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(2 * time.Minute):
		tb.Fatal("nothing is told")
	}
	panic("unreachable")
}

// TestCgroup2OOMKills: the kernel kills processes at the limits of containers and of pods.
// Each kill is reported for its pod, once, also for a pod that started later, and after the
// pods' cgroup was recreated. Nothing is left behind in the end.
func TestCgroup2OOMKills(t *testing.T) {
	n := newNode2(t, 400*mib)
	limited := func(pod, container string) string {
		t.Helper()
		n.group(pod + container)
		for _, group := range []string{pod, pod + container} {
			n.set(group, "memory.max", 40*mib)
			n.set(group, "memory.swap.max", 0)
		}
		return pod + container
	}
	burstable := limited(n.kubepods+"/burstable/pod"+burstableUID, "/container")
	overfill(n, burstable) // before it begins
	descriptors, routines := opened(t), runtime.NumGoroutine()
	k, err := NewOOMKills(cgroupMount, n.kubepods)
	if err != nil {
		t.Fatal(err)
	}
	k.pace, k.again = 10*time.Millisecond, 200*time.Millisecond
	told, faults, end := follow(t, k)
	overfill(n, burstable) // may be before the first look: then it is not reported
	overfill(n, burstable)
	for sum := int64(0); sum < 1; {
		kill := next(t, told)
		if kill.UID != burstableUID || kill.Count < 1 {
			t.Errorf("told of %+v", kill)
		}
		sum += kill.Count
	}
	overfill(n, limited(n.kubepods+"/pod"+guaranteedUID, "/container"))
	kill := next(t, told)
	for kill.UID == burstableUID { // the last of the pod before
		kill = next(t, told)
	}
	if kill != (OOMKill{guaranteedUID, 1}) {
		t.Errorf("told of %+v", kill)
	}

	for _, group := range []string{"/burstable/pod" + burstableUID + "/container", "/burstable/pod" + burstableUID, "/burstable", "/besteffort", "/pod" + guaranteedUID + "/container", "/pod" + guaranteedUID, ""} {
		n.rmdir(filepath.Join(cgroupMount, n.kubepods+group))
	}
	if fault := next(t, faults); !errors.Is(fault, errKubepodsGone) && !errors.Is(fault, unix.ENOENT) {
		t.Errorf("without kubepods: %v", fault)
	}
	n.group(n.kubepods)
	overfill(n, limited(n.kubepods+"/pod"+guaranteedUID, "/container")) // the same UID again, as a static pod's
	if kill := next(t, told); kill != (OOMKill{guaranteedUID, 1}) {
		t.Errorf("after kubepods was made anew, told of %+v", kill)
	}

	end()
	for deadline := time.Now().Add(2 * time.Minute); opened(t) > descriptors || runtime.NumGoroutine() > routines+1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %d descriptors, %d goroutines; before it was %d and %d", opened(t), runtime.NumGoroutine(), descriptors, routines)
		}
	}
}

// opened counts the descriptors of this process.
func opened(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// TestOOMKillOnCgroup1: on v1 the container's own group counts a kill, the pod's does not,
// and the count is lost with the group. That is why the pod's status is used there.
func TestOOMKillOnCgroup1(t *testing.T) {
	n := newRealNode(t)
	if n.hierarchy.Unified {
		t.Skip("SKIP: this machine has cgroup v2")
	}
	if _, err := NewOOMKills(cgroupMount, n.kubepods); !errors.Is(err, ErrOnlyUnified) {
		t.Errorf("following them: %v", err)
	}
	pod := n.kubepods + "/burstable/pod" + burstableUID
	n.group(pod + "/container")
	if err := os.WriteFile(filepath.Join(n.hierarchy.Memory, pod, "container/memory.limit_in_bytes"), []byte("41943040"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := figureOf(t, "/proc/vmstat", "oom_kill ")
	overfill(n, pod+"/container")
	for group, want := range map[string]int64{pod + "/container": 1, pod: 0} {
		if kills := figureOf(t, filepath.Join(n.hierarchy.Memory, group, "memory.oom_control"), "oom_kill "); kills != want {
			t.Errorf("%s counts %d kills, not %d", group, kills, want)
		}
	}
	if kills := figureOf(t, "/proc/vmstat", "oom_kill ") - before; kills < 1 {
		t.Errorf("the machine counts %d kills", kills)
	}
}

// plantKills puts a group's count below the mount; a negative one is a file that cannot be
// read.
func plantKills(t *testing.T, mount, group string, count int64) {
	t.Helper()
	path := filepath.Join(mount, group, "memory.events")
	kernelfiletest.Put(t, path, fmt.Sprintf("low 0\nhigh 0\nmax 9\noom 3\noom_kill %d\noom_group_kill 0\n", count))
	if count < 0 {
		kernelfiletest.Put(t, path, "oom_kill\n")
	}
}

// A count that cannot be read is not zero: it is not reported as a kill, and a kill in the
// meantime is not lost.
func TestOOMKillsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const one, other = "/kubepods/burstable/pod" + burstableUID, "/kubepods/pod" + guaranteedUID
	mount := v2.node().Plant(t)
	for _, class := range []string{"burstable", "besteffort"} {
		kernelfiletest.Put(t, filepath.Join(mount, "kubepods", class), directory)
	}
	k, err := NewOOMKills(mount, "kubepods")
	if err != nil {
		t.Fatal(err)
	}
	look := func(step string, total, first, second int64, fails bool, want ...OOMKill) {
		t.Helper()
		plantKills(t, mount, "/kubepods", total)
		plantKills(t, mount, one, first)
		plantKills(t, mount, other, second)
		var told []OOMKill
		err := k.look(func(kill OOMKill) { told = append(told, kill) })
		slices.SortFunc(told, func(a, b OOMKill) int { return strings.Compare(a.UID, b.UID) })
		if (err != nil) != fails || !slices.Equal(told, want) {
			t.Errorf("%s: told of %+v, %v; want %+v", step, told, err, want)
		}
	}
	look("kubepods cannot be read", -1, 7, 5, true)
	look("at first one cannot be read", 12, 7, -1, true)
	look("then it can", 12, 7, 5, false)
	look("both have more", 15, 9, 6, false, slices.SortedFunc(slices.Values([]OOMKill{{burstableUID, 2}, {guaranteedUID, 1}}), func(a, b OOMKill) int { return strings.Compare(a.UID, b.UID) })...)
	look("one cannot be read, the other has more", 17, 10, -1, true, OOMKill{burstableUID, 1})
	look("it has more, too", 17, 10, 7, false, OOMKill{guaranteedUID, 1})
	look("made anew", 19, 2, 7, false, OOMKill{burstableUID, 2})
	look("the same total is not looked into", 19, 3, 7, false)

	kernelfiletest.Put(t, filepath.Join(mount, "kubepods/besteffort"), "no directory")
	look("not all can be listed", 20, 4, 7, true)
	kernelfiletest.Put(t, filepath.Join(mount, "kubepods/besteffort"), directory)
	look("all can", 20, 4, 7, false, OOMKill{burstableUID, 2})
	kernelfiletest.Remove(t, filepath.Join(mount, "kubepods/memory.events"))
	if err := k.look(func(OOMKill) {}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("without kubepods' file: %v", err)
	}
}
