package pressure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/filetreetest"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

const (
	nodePSI = "/proc/pressure/memory"
	// unprivileged is a user without rights, as in the shipped DaemonSet.
	unprivileged = 64535
	// patience limits how long a test waits; nothing is expected to take as long.
	patience = 2 * time.Minute
)

// mustTrigger opens the unprivileged trigger on a real PSI file, or skips the test where
// this kernel has none.
func mustTrigger(t *testing.T, path string) (file int) {
	t.Helper()
	file, err := openTrigger(path, stallUnprivileged, windowUnprivileged)
	for _, refusal := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EPERM, unix.EACCES, unix.EROFS} {
		if errors.Is(err, refusal) {
			t.Skipf("this machine gives no trigger: %v", err)
		}
	}
	must(t, err)
	t.Cleanup(func() {
		if err := unix.Close(file); err != nil {
			t.Error(err)
		}
	})
	return file
}

// within returns the next value of the channel, or fails.
func within[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case got := <-from:
		return got
	case <-timer.C:
		t.Fatalf("%s: nothing within %v", what, patience)
	}
	panic("unreachable")
}

// TestATriggerLeavesNoDescriptor is not parallel: it counts those of the process.
func TestATriggerLeavesNoDescriptor(t *testing.T) {
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(open)
	}
	plain := filepath.Join(t.TempDir(), "memory")
	kernelfiletest.Put(t, plain, "some avg10=0.00")
	before := count()
	for range 50 {
		must(t, OpenWakers("", "").Close())
		for _, path := range []string{plain, "/proc/self/mem", nodePSI} {
			if _, err := openTrigger(path, 7*time.Microsecond, 11*time.Second); err == nil {
				t.Fatalf("a window of 11 s was taken on %s", path)
			}
		}
	}
	if after := count(); after > before+5 { // the runtime may have opened some of its own
		t.Errorf("%d descriptors were open before 200 triggers, %d after", before, after)
	}
}

func TestBadPSIFiles(t *testing.T) {
	t.Parallel()
	link := func(target string) func(string) error {
		return func(path string) error { return os.Symlink(target, path) }
	}
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for name, tc := range map[string]struct {
		prepare func(path string) error
		want    error
	}{
		"missing":              {func(string) error { return nil }, unix.ENOENT},
		"directory":            {func(path string) error { return os.Mkdir(path, 0o755) }, unix.EISDIR},
		"empty file":           {write(""), errNotPSI},
		"file like PSI":        {write("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"), errNotPSI},
		"FIFO":                 {func(path string) error { return unix.Mkfifo(path, 0o600) }, errNotPSI},
		"dangling link":        {link("nowhere"), unix.ENOENT},
		"link to itself":       {func(path string) error { return os.Symlink(path, path) }, unix.ELOOP},
		"device":               {link("/dev/null"), errNotPSI},
		"another file of proc": {link("/proc/self/oom_score_adj"), unix.EINVAL},
		"input/output error":   {link("/proc/self/mem"), unix.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "memory")
			must(t, tc.prepare(path))
			before, _ := os.Stat(path)
			if file, err := openTrigger(path, stallUnprivileged, windowUnprivileged); file >= 0 || !errors.Is(err, tc.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("descriptor %d, error %v; want none, %v and the path", file, err, tc.want)
			}
			if after, _ := os.Stat(path); before != nil && (after.Size() != before.Size() || after.ModTime() != before.ModTime()) {
				t.Errorf("it was written to: %v before, %v after", before, after)
			}
		})
	}
}

// dropRights switches this thread to a user without any capability.
func dropRights() error {
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS, 0, 0, 0},
		{unix.SYS_SETRESGID, unprivileged, unprivileged, unprivileged},
		{unix.SYS_SETRESUID, unprivileged, unprivileged, unprivileged},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return err
	}
	if data[0].Effective|data[1].Effective|data[0].Permitted|data[1].Permitted != 0 {
		return fmt.Errorf("capabilities are left: %+v", data)
	}
	return nil
}

// ownWindow is the shortest window that this kernel grants this process: root does not
// necessarily have every capability.
func ownWindow(t *testing.T) time.Duration {
	t.Helper()
	var data [2]unix.CapUserData
	must(t, unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]))
	if data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0 {
		return windowPrivileged
	}
	return windowUnprivileged
}

// TestAReadOnlyProcFallsBackToTheOwn is the situation of the shipped DaemonSet: the host's
// /proc is mounted read-only, and the user is unprivileged, who gets the long window only. That the kernel then sends
// events to it is shown on a real node.
func TestAReadOnlyProcFallsBackToTheOwn(t *testing.T) {
	t.Parallel()
	mustTrigger(t, nodePSI)
	root := t.TempDir()
	proc := filepath.Join(root, "proc")
	// Every user may enter the directory of a test.
	must(t, errors.Join(os.Mkdir(proc, 0o755), os.Chmod(root, 0o755), os.Chmod(filepath.Dir(root), 0o755)))
	var refused error
	var states []WakeState
	filetreetest.InMountNamespace(t, func() {
		err := errors.Join(unix.Mount("/proc", proc, "", unix.MS_BIND, ""), unix.Mount("", proc, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
		_, refused = openTrigger(filepath.Join(root, nodePSI), stallUnprivileged, windowUnprivileged)
		if err = errors.Join(err, dropRights()); err != nil {
			t.Error(err)
			return
		}
		w := OpenWakers(root, "/kubepods")
		states = w.States()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(refused, unix.EROFS) {
		t.Errorf("a trigger on a read-only /proc: %v; want EROFS", refused)
	}
	if len(states) == 2 && errors.Is(states[0].Err, unix.EPERM) {
		t.Skipf("this kernel accepts no trigger without CAP_SYS_RESOURCE: %v", states[0].Err)
	}
	if len(states) != 2 || states[0].Err != nil || states[0].Path != nodePSI || states[0].Window != windowUnprivileged {
		t.Errorf("states are %+v; want a trigger on this /proc", states)
	}
}

// TestATriggerEndsWithItsCgroup makes a cgroup of version 2, which it needs root for, and a mount.
func TestATriggerEndsWithItsCgroup(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	var mount string
	for line := range strings.Lines(string(mounts)) {
		if field := strings.Fields(line); len(field) > 3 && field[2] == "cgroup2" && slices.Contains(strings.Split(field[3], ","), "rw") {
			mount = field[1]
			break
		}
	}
	if mount == "" {
		t.Skip("no cgroup v2 is mounted")
	}
	name := fmt.Sprintf("evictd-%s-%d", t.Name(), os.Getpid())
	group := filepath.Join(mount, name)
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no group can be made: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	mustTrigger(t, nodePSI)
	w := openWakers(Options{Kubepods: name}, mount, nodePSI)
	if s := w.States()[1]; s.Err != nil || s.Path != filepath.Join(group, "memory.pressure") || s.Window != ownWindow(t) {
		t.Fatalf("the pods' state is %+v; want a trigger", s)
	}
	told, end := running(t, w)
	must(t, os.Remove(group))
	if got := within(t, "the end", told.states); got.Source != WakeKubepods || !errors.Is(got.Err, errTriggerGone) {
		t.Errorf("noted %+v; want the end of kubepods", got)
	}
	end()
}
