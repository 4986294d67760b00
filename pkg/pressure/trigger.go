package pressure

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// StallKind says which stall the kernel should watch for; see
// Documentation/accounting/psi.rst of Linux. The zero value is Some.
type StallKind uint8

// The kinds.
const (
	// Some is time in which at least one task waited for memory.
	Some StallKind = iota
	// Full is time in which every task that could have run waited for memory.
	Full
)

// String returns the kernel's word for the kind.
func (k StallKind) String() string {
	switch k {
	case Some:
		return "some"
	case Full:
		return "full"
	default:
		return fmt.Sprintf("StallKind(%d)", uint8(k))
	}
}

// Faults of a trigger.
var (
	errNotPSI      = errors.New("this is not a file of the kernel's pressure-stall information")
	errTriggerGone = errors.New("the kernel has ended the trigger: its cgroup has gone, or its accounting was switched off")
	errBadStall    = errors.New("a stall is longer than 0 and not longer than its window")
)

// stallTrigger makes the kernel send an event when tasks have waited for memory for longer
// than a stall within any window, at most one event a window. It holds three file
// descriptors until Close. Its methods may be called from any goroutine.
type stallTrigger struct {
	path  string
	file  int // the PSI file; the kernel keeps one trigger for each descriptor
	epoll int // watches the file and stop
	stop  int // an eventfd that Close writes to

	finish  sync.Once
	closing error // the result of finish

	waiting sync.Mutex // held while descriptors are in use; guards all below
	closed  bool
	ended   error
}

// openTrigger writes a trigger to a PSI file: /proc/pressure/memory, or memory.pressure of a
// group of cgroup v2. Stall and window count in whole microseconds, the window is at most 10
// s.
//
// The file must be opened for writing. Some kernels require CAP_SYS_RESOURCE for that
// (EPERM); others, without that capability, reject every window that is not a multiple of
// 2 s (EINVAL). The release does not tell which. Other errors: ENOENT, the kernel has no PSI; EOPNOTSUPP, it was
// booted with psi=0; EROFS and EACCES, a mount or a mode forbids writing. openTrigger never
// writes to a file that is not PSI.
func openTrigger(path string, kind StallKind, stall, window time.Duration) (*stallTrigger, error) {
	var t *stallTrigger
	file, err := writeTrigger(path, kind, stall, window)
	if err == nil {
		t, err = watch(path, file)
	}
	if err != nil {
		return nil, fmt.Errorf("opening a trigger on %s: %w", path, err)
	}
	return t, nil
}

// writeTrigger returns the descriptor for which the kernel keeps the trigger.
func writeTrigger(path string, kind StallKind, stall, window time.Duration) (int, error) {
	if stall < time.Microsecond || stall > window {
		return -1, errBadStall
	}
	file, err := openPSI(path)
	if err != nil {
		return -1, err
	}
	// The kernel overwrites the last byte with NUL, so the line ends with a spare one.
	line := fmt.Sprintf("%s %d %d\x00", kind, stall.Microseconds(), window.Microseconds())
	if _, err := unix.Write(file, []byte(line)); err != nil {
		_ = unix.Close(file) // the kernel discards a line that it rejected
		return -1, fmt.Errorf("asking for %v in %v: %w", stall, window, err)
	}
	return file, nil
}

// psiStart is how the first line of every PSI file begins.
const psiStart = "some avg10="

// openPSI opens a file for reading and writing and makes sure that it is PSI: any other file
// at its path could be damaged by the line.
func openPSI(path string) (int, error) {
	file, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := checkPSI(file); err != nil {
		_ = unix.Close(file) // nothing was written
		return -1, err
	}
	return file, nil
}

func checkPSI(file int) error {
	var filesystem unix.Statfs_t
	if err := unix.Fstatfs(file, &filesystem); err != nil {
		return fmt.Errorf("asking for its filesystem: %w", err)
	}
	if filesystem.Type != unix.PROC_SUPER_MAGIC && filesystem.Type != unix.CGROUP2_SUPER_MAGIC {
		return errNotPSI
	}
	content := make([]byte, numberMax)
	size, err := unix.Pread(file, content, 0)
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if !bytes.HasPrefix(content[:size], []byte(psiStart)) {
		return errNotPSI
	}
	return nil
}

// watch prepares to wait for POLLPRI on a file, and takes the file over. The kernel clears
// an event once it was polled, so there must be only one poller: Go's own does not support
// POLLPRI, and an epoll within it would consume the event.
func watch(path string, file int) (*stallTrigger, error) {
	t := &stallTrigger{path: path, file: file, epoll: -1, stop: -1}
	err := t.prepare()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing to wait: %w", err), t.release())
	}
	return t, nil
}

func (t *stallTrigger) prepare() (err error) {
	if t.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if t.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	// Edge-triggered: a descriptor that stays ready is reported once, so that a waiter does
	// not spin. EPOLLERR is always reported.
	for fd, events := range map[int]uint32{t.file: unix.EPOLLPRI | unix.EPOLLET, t.stop: unix.EPOLLIN} {
		event := unix.EpollEvent{Events: events, Fd: int32(fd)} //nolint:gosec // a descriptor is an int32
		if err := unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return err
		}
	}
	return nil
}

// Wait returns nil when the kernel has detected a stall. After an error there is nothing
// more to wait for: [os.ErrClosed] when Close was called, otherwise the fault of the
// trigger, such as the end of its cgroup. It blocks one system thread, and only one call may
// wait at a time.
func (t *stallTrigger) Wait() error {
	t.waiting.Lock()
	defer t.waiting.Unlock()
	for !t.closed && t.ended == nil {
		woken, err := t.poll()
		if err != nil {
			t.ended = err
		}
		if woken {
			return nil
		}
	}
	err := t.ended
	if t.closed {
		err = os.ErrClosed
	}
	return fmt.Errorf("waiting for a stall on %s: %w", t.path, err)
}

// poll waits once. It returns false without an error when a signal interrupted it.
func (t *stallTrigger) poll() (bool, error) {
	var events [2]unix.EpollEvent
	count, err := unix.EpollWait(t.epoll, events[:], -1)
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	woken := false
	for _, event := range events[:count] {
		switch {
		case int(event.Fd) == t.stop:
			return false, os.ErrClosed
		case event.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
			err = errTriggerGone // EPOLLPRI is set as well
		case event.Events&unix.EPOLLPRI != 0:
			woken = true
		}
	}
	return woken && err == nil, err
}

// Close ends the trigger and every Wait, and returns when no Wait is running. A second call
// does nothing and returns the same error.
func (t *stallTrigger) Close() error {
	t.finish.Do(func() {
		if err := t.shut(); err != nil {
			t.closing = fmt.Errorf("closing the trigger on %s: %w", t.path, err)
		}
	})
	return t.closing
}

func (t *stallTrigger) shut() error {
	if _, err := unix.Write(t.stop, binary.NativeEndian.AppendUint64(nil, 1)); err != nil {
		return err // it cannot fail; a waiter may use the descriptors, so they stay
	}
	t.waiting.Lock()
	defer t.waiting.Unlock()
	t.closed = true
	return t.release()
}

// release closes the descriptors that are open.
func (t *stallTrigger) release() error {
	var faults []error
	for _, fd := range []int{t.epoll, t.file, t.stop} {
		if fd >= 0 {
			faults = append(faults, unix.Close(fd))
		}
	}
	return errors.Join(faults...)
}
