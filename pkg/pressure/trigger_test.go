package pressure

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Close(file); err != nil {
			t.Error(err)
		}
	})
	return file
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
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

// socket returns a TCP connection, whose urgent data is besides PSI the simplest thing that the kernel
// reports as POLLPRI. The function causes one event.
func socket(t *testing.T) (receiver int, event func()) {
	t.Helper()
	receiver, sender := connection(t)
	return receiver, func() {
		if err := unix.Sendto(sender, []byte{1}, unix.MSG_OOB, nil); err != nil {
			t.Error(err)
		}
	}
}

// pipe returns a file on which an error is reported when the function is called.
func pipe(t *testing.T) (file int, breakIt func()) {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	reader := os.NewFile(uintptr(ends[0]), "a pipe")
	t.Cleanup(func() { _ = reader.Close() })
	return ends[1], func() {
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
}

// connection returns both ends of a TCP connection; the caller closes the first.
func connection(t *testing.T) (receiver, sender int) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(err)
	defer func() { check(unix.Close(listener)) }()
	check(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	check(unix.Listen(listener, 1))
	address, err := unix.Getsockname(listener)
	check(err)
	sender, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(err)
	t.Cleanup(func() { _ = unix.Close(sender) })
	check(unix.Connect(sender, address))
	receiver, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	check(err)
	return receiver, sender
}

func TestTheKernelTakesATrigger(t *testing.T) {
	t.Parallel()
	// One trigger for each descriptor: a second line is refused if the first was taken.
	if _, err := unix.Write(mustTrigger(t, nodePSI), []byte("some 100000 2000000\x00")); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a second trigger on the descriptor: %v; want EBUSY, the first is there", err)
	}
}

// TestATriggerLeavesNoDescriptor is not parallel: it counts those of the process.
func TestATriggerLeavesNoDescriptor(t *testing.T) {
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	plain := filepath.Join(t.TempDir(), "memory")
	kernelfiletest.Put(t, plain, "some avg10=0.00")
	before := count()
	for range 50 {
		if err := OpenWakers("", "").Close(); err != nil {
			t.Fatal(err)
		}
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
	const line = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	tests := map[string]struct {
		prepare func(path string) error
		want    error
	}{
		"missing":              {func(string) error { return nil }, unix.ENOENT},
		"directory":            {func(path string) error { return os.Mkdir(path, 0o755) }, unix.EISDIR},
		"empty file":           {func(path string) error { return os.WriteFile(path, nil, 0o600) }, errNotPSI},
		"file like PSI":        {func(path string) error { return os.WriteFile(path, []byte(line), 0o600) }, errNotPSI},
		"FIFO":                 {func(path string) error { return unix.Mkfifo(path, 0o600) }, errNotPSI},
		"dangling link":        {func(path string) error { return os.Symlink("nowhere", path) }, unix.ENOENT},
		"link to itself":       {func(path string) error { return os.Symlink(path, path) }, unix.ELOOP},
		"device":               {func(path string) error { return os.Symlink("/dev/null", path) }, errNotPSI},
		"another file of proc": {func(path string) error { return os.Symlink("/proc/self/oom_score_adj", path) }, errNotPSI},
		"input/output error":   {func(path string) error { return os.Symlink("/proc/self/mem", path) }, unix.EIO},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "memory")
			if err := tc.prepare(path); err != nil {
				t.Fatal(err)
			}
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

// onThread runs the function on its own thread, which ends with it: on Linux, credentials
// and mounts belong to the thread.
func onThread(t *testing.T, run func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		done <- run()
	}()
	if err := within(t, "the thread", done); err != nil {
		t.Error(err)
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

// withoutRights runs the function on its own thread, as a user without any capability.
func withoutRights(t *testing.T, run func() error) {
	t.Helper()
	onThread(t, func() error {
		if err := dropRights(); err != nil {
			return err
		}
		return run()
	})
}

// TestAUserWithoutRightsGetsTheLongWindowOnly: see TestARealStallWakes for the event.
func TestAUserWithoutRightsGetsTheLongWindowOnly(t *testing.T) {
	t.Parallel()
	needUnprivileged(t)
	withoutRights(t, func() error {
		if _, err := openTrigger(nodePSI, stallPrivileged, windowPrivileged); !errors.Is(err, unix.EINVAL) {
			t.Errorf("user %d, no capability, a window of %v: %v; want EINVAL", unprivileged, windowPrivileged, err)
		}
		return nil
	})
}

// ownWindow is the shortest window that this kernel grants this process: root does not
// necessarily have every capability.
func ownWindow(t *testing.T) time.Duration {
	t.Helper()
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		t.Fatal(err)
	}
	if data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0 {
		return windowPrivileged
	}
	return windowUnprivileged
}

// needUnprivileged makes sure that this kernel grants an unprivileged user a trigger. It
// fails where this version of Linux should grant it but does not.
func needUnprivileged(t *testing.T) {
	t.Helper()
	needRoot(t)
	mustTrigger(t, nodePSI)
	var refused error
	withoutRights(t, func() error {
		file, err := openTrigger(nodePSI, stallUnprivileged, windowUnprivileged)
		if refused = err; err == nil {
			return unix.Close(file)
		}
		return nil
	})
	if errors.Is(refused, unix.EPERM) {
		t.Skipf("this kernel accepts no trigger without CAP_SYS_RESOURCE: %v", refused)
	}
	if refused != nil {
		t.Fatalf("user %d, no capability, a window of %v: %v; want a trigger", unprivileged, windowUnprivileged, refused)
	}
}

// TestAReadOnlyProcFallsBackToTheOwn is the situation of the shipped DaemonSet: the host's
// /proc is mounted read-only, and the user is unprivileged.
func TestAReadOnlyProcFallsBackToTheOwn(t *testing.T) {
	t.Parallel()
	needUnprivileged(t)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	var refused error
	var states []WakeState
	onThread(t, func() error {
		if err := mountReadOnly("/proc", filepath.Join(root, "proc")); err != nil {
			return err
		}
		_, refused = openTrigger(filepath.Join(root, nodePSI), stallUnprivileged, windowUnprivileged)
		if err := openTheWay(root); err != nil {
			return err
		}
		if err := dropRights(); err != nil {
			return err
		}
		w := OpenWakers(root, "/kubepods")
		states = w.States()
		return w.Close()
	})
	if !errors.Is(refused, unix.EROFS) {
		t.Errorf("a trigger on a read-only /proc: %v; want EROFS", refused)
	}
	if len(states) != 2 || states[0].Err != nil || states[0].Path != nodePSI || states[0].Window != windowUnprivileged {
		t.Errorf("states are %+v; want a trigger on this /proc", states)
	}
}

// mountReadOnly gives this thread a mount namespace of its own and binds what in
// where.
func mountReadOnly(what, where string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unsharing mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount(what, where, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding: %w", err)
	}
	return unix.Mount("", where, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

// openTheWay lets every user enter the directories of a test.
func openTheWay(dir string) error {
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// mounted returns where a filesystem of that type and option is mounted, "" where there is
// none.
func mounted(tb testing.TB, kind, option string) string {
	tb.Helper()
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		tb.Fatal(err)
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		field := strings.Fields(lines.Text())
		if len(field) > 3 && field[2] == kind && strings.Contains(","+field[3]+",", ","+option+",") {
			return field[1]
		}
	}
	return ""
}

// newGroup makes a cgroup for the test below the mount and removes it at the end. It skips
// the test where that is not possible.
func newGroup(tb testing.TB, mount string) string {
	tb.Helper()
	name := strings.ReplaceAll(tb.Name(), "/", "-")
	group := filepath.Join(mount, fmt.Sprintf("evictd-%s-%d", name, os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		tb.Skipf("no group can be made: %v", err)
	}
	tb.Cleanup(func() {
		if err := os.Remove(group); err != nil && !errors.Is(err, os.ErrNotExist) {
			tb.Error(err)
		}
	})
	return group
}

func TestATriggerEndsWithItsCgroup(t *testing.T) {
	t.Parallel()
	needRoot(t)
	mount := mounted(t, "cgroup2", "rw")
	if mount == "" {
		t.Skip("no cgroup v2 is mounted")
	}
	group := newGroup(t, mount)
	mustTrigger(t, nodePSI)
	w := openWakers(Options{Kubepods: filepath.Base(group)}, mount, nodePSI)
	if s := w.States()[1]; s.Err != nil || s.Path != filepath.Join(group, "memory.pressure") || s.Window != ownWindow(t) {
		t.Fatalf("the pods' state is %+v; want a trigger", s)
	}
	told, end := running(t, w)
	if err := os.Remove(group); err != nil {
		t.Fatal(err)
	}
	if got := within(t, "the end", told.states); got.Source != WakeKubepods || !errors.Is(got.Err, errTriggerGone) {
		t.Errorf("noted %+v; want the end of kubepods", got)
	}
	end()
}

// TestARealStallWakes makes a group of cgroup v1 thrash: it reads a file that is 32 times
// larger than the group's limit. That is a stall of the node too. The kernel wakes every
// waiter: a fully privileged one, and an unprivileged one, as in the shipped DaemonSet. How much a
// machine stalls is its own matter: where it hardly did, the test is skipped.
func TestARealStallWakes(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: the machine decides how long it takes until it stalls, 1 s to 2 minutes: make test-long runs it")
	}
	t.Parallel()
	needUnprivileged(t)
	procs := smallGroup(t)
	all := map[string]*Wakers{"root": OpenWakers("", "")}
	withoutRights(t, func() error {
		all["unprivileged"] = OpenWakers("", "")
		return nil
	})
	windows := map[string]time.Duration{"root": ownWindow(t), "unprivileged": windowUnprivileged}
	for name, w := range all {
		if got := w.States()[0]; got.Err != nil || got.Window != windows[name] {
			t.Errorf("%s: the node's state is %+v; want a window of %v", name, got, windows[name])
		}
		_, end := running(t, w)
		defer end()
	}
	stalled := nodeStalled(t)
	ended := thrash(t, procs)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for name, w := range all {
		select {
		case <-w.Wake():
			continue
		case <-limit.C:
		}
		ended()
		// With less than that no window need have had a stall that wakes.
		const windows = int64(patience / windowUnprivileged)
		if stalled = nodeStalled(t) - stalled; stalled < stallUnprivileged*time.Duration(windows) {
			t.Skipf("SKIP: the node stalled for no more than %v in %v", stalled, patience)
		}
		t.Fatalf("%s: no wake-up, although the node stalled for %v", name, stalled)
	}
}

// nodeStalled returns for how long the node has stalled for memory, in part, since it started.
func nodeStalled(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(nodePSI)
	if err != nil {
		t.Fatal(err)
	}
	_, total, _ := strings.Cut(string(text), " total=") // the first line is that of some
	micros, err := strconv.ParseInt(total[:strings.IndexByte(total, '\n')], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(micros) * time.Microsecond
}

// thrash reads a large sparse file repeatedly, in the group with that cgroup.procs, until
// the function is called or the test ends, and for about 20 s at most.
func thrash(tb testing.TB, procs string) (stop func()) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "large")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Truncate(file, 256<<20); err != nil {
		tb.Fatal(err)
	}
	command := exec.Command("/bin/sh", "-c", `echo $$ > "$0" && for i in $(seq 500); do cat "$1" > /dev/null; done`, procs, file)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		_ = command.Wait()
		untilEmpty(tb, procs)
	})
	tb.Cleanup(stop)
	return stop
}

// untilEmpty waits until the group has no process: killed processes leave it with a short
// delay.
func untilEmpty(tb testing.TB, procs string) {
	tb.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		left, err := os.ReadFile(procs)
		if err != nil || len(left) == 0 {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			tb.Errorf("processes are left in the group: %s", left)
			return
		}
	}
}

// smallGroup makes a group of cgroup v1 for the test with a limit of 8 MiB, and returns its
// cgroup.procs. It skips the test where that is not possible.
func smallGroup(tb testing.TB) (procs string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root")
	}
	mount := mounted(tb, "cgroup", "memory")
	if mount == "" {
		tb.Skip("no cgroup v1 accounts for memory; make test-cgroup2 has this test for v2")
	}
	group := newGroup(tb, mount)
	if err := os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), []byte("8388608"), 0); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(group, "cgroup.procs")
}
