package pressure

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// WakeSource is a place where the kernel can watch for stalls.
type WakeSource string

// The sources.
const (
	// WakeNode is the whole machine: /proc/pressure/memory.
	WakeNode WakeSource = "Node"
	// WakeKubepods is all pods together: memory.pressure of their cgroup. The kernel weighs
	// CPUs by what runs on them, so that busy processes outside of pods can hide the pods'
	// stall in the node's figure, but not in this one. Only cgroup v2 has it.
	WakeKubepods WakeSource = "Kubepods"
)

// WakeState is the state of one source.
type WakeState struct {
	Source WakeSource
	// Path and Window are those of the trigger; zero where there is none.
	Path   string
	Window time.Duration
	// Err is why there is no trigger; nil where there is one.
	Err error

	file int // for which the kernel keeps the trigger; -1 where there is none
}

// WakeNotes receives what happens to the sources, from the goroutine of Run.
type WakeNotes interface {
	// Woken is called for each event of the kernel, after the wake-up was sent.
	Woken(source WakeSource)
	// Wakeups is called when a source has ended, such as with its cgroup.
	Wakeups(state WakeState)
}

// Wakers are the kernel's wake-ups. They only trigger an early sample and are never a
// reading. Where the kernel, a mount or a right is missing there are fewer of them or none,
// which is a state and not a failure.
type Wakers struct {
	wake    chan struct{}
	sources []WakeState
	// poll is poll(2), which a test replaces. The kernel clears an event once it was polled, so that Go's
	// own poller cannot wait for it.
	poll func(files []unix.PollFd, timeout int) (int, error)
}

// pollFor is how long one poll(2) waits, in milliseconds. No context interrupts it, so that the end of
// one is noticed by then.
const pollFor = 250

var errTriggerGone = errors.New("the kernel has ended the trigger: its cgroup has gone, or its accounting was switched off")

// OpenWakers opens the sources that can be opened; hostRoot and kubepods are as in [Options]. Run uses
// them; call Close at the end.
func OpenWakers(hostRoot, kubepods string) *Wakers {
	return openWakers(Options{HostRoot: hostRoot, Kubepods: kubepods}, cgroupRoot, "/proc/pressure/memory")
}

// openWakers is OpenWakers with the cgroup mount of the host and this process's own file, which a test
// replaces.
//
// It tries the node's file below the host root first, and then in this container's own /proc: the shipped
// DaemonSet mounts the host's read-only, which forbids opening for writing (EROFS). The container's own is
// the same file, and every user may write to it, unless AppArmor's default profiles forbid it (EACCES).
func openWakers(options Options, cgroups, own string) *Wakers {
	node := openWaker(WakeNode, slices.Compact([]string{options.host("/proc/pressure/memory"), own})...)
	pods := WakeState{Source: WakeKubepods, Err: errNoKubepods, file: -1}
	if options.Kubepods != "" {
		pods = openWaker(WakeKubepods, filepath.Join(options.host(cgroups), options.Kubepods, "memory.pressure"))
	}
	return &Wakers{wake: make(chan struct{}, 1), sources: []WakeState{node, pods}, poll: unix.Poll}
}

// openWaker returns a source with a trigger on the first path that accepts one.
func openWaker(source WakeSource, paths ...string) WakeState {
	s := WakeState{Source: source, file: -1}
	for _, path := range paths {
		file, window, err := openShortest(path)
		switch {
		case err == nil:
			return WakeState{Source: source, Path: path, Window: window, file: file}
		case s.Err != nil:
			err = fmt.Errorf("%w; %w", s.Err, err)
		}
		s.Err = err
	}
	return s
}

// States returns the state of each source after it was opened. Do not call it while Run is
// running.
func (w *Wakers) States() []WakeState { return slices.Clone(w.sources) }

// Wake returns the channel that gets a value when the kernel has detected a stall. It holds
// one value, however many events precede its receipt, so that a busy receiver misses none.
// It is never closed.
func (w *Wakers) Wake() <-chan struct{} { return w.wake }

// Run waits for the kernel until the context ends, and returns up to a quarter of a second later. It
// blocks one system thread. A source that ends is reported to notes, and not opened again.
func (w *Wakers) Run(ctx context.Context, notes WakeNotes) error {
	files := make([]unix.PollFd, len(w.sources))
	for ctx.Err() == nil {
		for i := range w.sources {
			files[i] = unix.PollFd{Fd: int32(w.sources[i].file), Events: unix.POLLPRI} //nolint:gosec // a descriptor is an int32; -1 is none
		}
		if _, err := w.poll(files, pollFor); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for stalls: %w", err)
		}
		for i := range w.sources {
			w.take(&w.sources[i], files[i].Revents, notes)
		}
	}
	return nil
}

// take passes an event of a source on, or its end; no events are none.
func (w *Wakers) take(s *WakeState, events int16, notes WakeNotes) {
	switch {
	case events == 0:
		return
	case events&(unix.POLLERR|unix.POLLHUP) != 0: // POLLPRI is set as well
		_ = unix.Close(s.file) // its trigger is gone
		*s = WakeState{Source: s.Source, Err: fmt.Errorf("waiting for a stall on %s: %w", s.Path, errTriggerGone), file: -1}
		notes.Wakeups(*s)
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // one is waiting to be received already
	}
	notes.Woken(s.Source)
}

// Close closes everything, where Run is not running. Closing again does nothing.
func (w *Wakers) Close() error {
	var faults []error
	for i := range w.sources {
		if s := &w.sources[i]; s.file >= 0 {
			faults = append(faults, unix.Close(s.file))
			s.file = -1
		}
	}
	return errors.Join(faults...)
}
