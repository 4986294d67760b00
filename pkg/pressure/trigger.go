package pressure

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The parameters of the trigger. A wake-up costs one sample and decides nothing, so a stall
// of 5 % is enough: above that of a node that reclaims a little now and then, below
// systemd's limit for pressure (10 %) and far below thrashing.
//
// With CAP_SYS_RESOURCE the kernel looks ten times a window, so that an event is about 100
// ms old; a shorter window would make it look more often without an earlier eviction than
// pacing gives. Without the capability, Linux accepts multiples of 2 s only and looks every
// 2 s.
const (
	stallPrivileged    = 50 * time.Millisecond
	windowPrivileged   = time.Second
	stallUnprivileged  = 100 * time.Millisecond
	windowUnprivileged = 2 * time.Second
)

var errNotPSI = errors.New("this is not a file of the kernel's pressure-stall information")

// openShortest opens a trigger with the short window, or, where the kernel does not allow
// it, with the one that needs no capability.
func openShortest(path string) (file int, window time.Duration, err error) {
	file, err = openTrigger(path, stallPrivileged, windowPrivileged)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
		return file, windowPrivileged, err
	}
	file, err = openTrigger(path, stallUnprivileged, windowUnprivileged)
	return file, windowUnprivileged, err
}

// openTrigger makes the kernel send an event, at most one a window, when tasks have waited for memory
// for longer than a stall within any window of /proc/pressure/memory, or of memory.pressure of a group
// of cgroup v2. The kernel keeps one trigger for the descriptor that is returned, until that is closed.
//
// The file must be opened for writing. Some kernels require CAP_SYS_RESOURCE for that (EPERM); others,
// without that capability, reject every window that is not a multiple of 2 s (EINVAL). The release does
// not tell which. Other errors: ENOENT, the kernel has no PSI; EOPNOTSUPP, it was booted with psi=0;
// EROFS and EACCES, a mount or a mode forbids writing.
func openTrigger(path string, stall, window time.Duration) (file int, err error) {
	file, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == nil {
		if err = writeTrigger(file, stall, window); err == nil {
			return file, nil
		}
		_ = unix.Close(file) // the kernel discards a line that it rejected
	}
	return -1, fmt.Errorf("opening a trigger on %s: %w", path, err)
}

// writeTrigger writes only to a file of the kernel: the line could damage any other.
func writeTrigger(file int, stall, window time.Duration) error {
	var filesystem unix.Statfs_t
	if err := unix.Fstatfs(file, &filesystem); err != nil {
		return fmt.Errorf("asking for its filesystem: %w", err)
	}
	if filesystem.Type != unix.PROC_SUPER_MAGIC && filesystem.Type != unix.CGROUP2_SUPER_MAGIC {
		return errNotPSI
	}
	// The kernel overwrites the last byte with NUL, so the line ends with a spare one.
	line := fmt.Sprintf("some %d %d\x00", stall.Microseconds(), window.Microseconds())
	if _, err := unix.Write(file, []byte(line)); err != nil {
		return fmt.Errorf("asking for %v in %v: %w", stall, window, err)
	}
	return nil
}
