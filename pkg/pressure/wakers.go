package pressure

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// WakeSources returns every source.
func WakeSources() []WakeSource { return []WakeSource{WakeNode, WakeKubepods} }

// WakeState is the state of one source.
type WakeState struct {
	Source WakeSource
	// Path and Window are those of the trigger; zero where there is none.
	Path   string
	Window time.Duration
	// Err is why there is no trigger; nil where there is one.
	Err error
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
	sources []*wakeSource
	// ended is a pipe that hangs up when end, its other side, is closed; nil where there is none.
	ended, end *os.File
	// poll is poll(2), which a test replaces. The kernel clears an event once it was polled, so that Go's
	// own poller cannot wait for it.
	poll func(files []unix.PollFd, timeout int) (int, error)
}

// wakeSource is a source with the file for which the kernel keeps its trigger; -1 where there is none.
type wakeSource struct {
	WakeState
	file int
}

var errTriggerGone = errors.New("the kernel has ended the trigger: its cgroup has gone, or its accounting was switched off")

// OpenWakers opens the sources that can be opened; hostRoot and kubepods are as in [Options]. Run uses
// them; call Close where Run is never called.
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
	node := slices.Compact([]string{options.host("/proc/pressure/memory"), own})
	pods := filepath.Join(options.host(cgroups), options.Kubepods, "memory.pressure")
	w := &Wakers{wake: make(chan struct{}, 1), poll: unix.Poll}
	var err error
	if w.ended, w.end, err = os.Pipe(); err != nil {
		err = fmt.Errorf("preparing to wait for stalls: %w", err)
	}
	w.open(WakeNode, node, err)
	if options.Kubepods == "" {
		err = errNoKubepods
	}
	w.open(WakeKubepods, []string{pods}, err)
	return w
}

// open adds a source with a trigger on the first path that accepts one; with none where there is a fault.
func (w *Wakers) open(source WakeSource, paths []string, fault error) {
	s := &wakeSource{WakeState: WakeState{Source: source, Err: fault}, file: -1}
	w.sources = append(w.sources, s)
	for _, path := range paths {
		if fault != nil {
			return
		}
		file, window, err := openShortest(path)
		switch {
		case err == nil:
			s.file, s.Path, s.Window, s.Err = file, path, window, nil
			return
		case s.Err != nil:
			err = fmt.Errorf("%w; %w", s.Err, err)
		}
		s.Err = err
	}
}

// States returns the state of each source after it was opened. Do not call it while Run is
// running.
func (w *Wakers) States() []WakeState {
	states := make([]WakeState, 0, len(w.sources))
	for _, s := range w.sources {
		states = append(states, s.WakeState)
	}
	return states
}

// Wake returns the channel that gets a value when the kernel has detected a stall. It holds
// one value, however many events precede its receipt, so that a busy receiver misses none.
// It is never closed.
func (w *Wakers) Wake() <-chan struct{} { return w.wake }

// Run waits for the kernel until the context ends, then closes everything. It blocks one system thread.
// A source that ends is reported to notes, and not opened again.
func (w *Wakers) Run(ctx context.Context, notes WakeNotes) error {
	if w.ended == nil { // there is nothing to wait for
		<-ctx.Done()
		return w.Close()
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = w.end.Close() // closing a pipe cannot fail
	})
	defer func() {
		if !stop() {
			<-closed // nothing that Run started outlives it
		}
	}()
	files := make([]unix.PollFd, 1+len(w.sources))
	for {
		files[0].Fd = int32(w.ended.Fd()) //nolint:gosec // a descriptor is an int32
		for i, s := range w.sources {
			files[i+1] = unix.PollFd{Fd: int32(s.file), Events: unix.POLLPRI} //nolint:gosec // as above; -1 is none
		}
		_, err := w.poll(files, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return errors.Join(fmt.Errorf("waiting for stalls: %w", err), w.Close())
		case files[0].Revents != 0:
			return w.Close()
		}
		for i, s := range w.sources {
			w.take(s, files[i+1].Revents, notes)
		}
	}
}

// take passes an event of a source on, or its end; no events are none.
func (w *Wakers) take(s *wakeSource, events int16, notes WakeNotes) {
	switch {
	case events == 0:
		return
	case events&(unix.POLLERR|unix.POLLHUP) != 0: // POLLPRI is set as well
		_ = unix.Close(s.file) // its trigger is gone
		s.file = -1
		s.WakeState = WakeState{Source: s.Source, Err: fmt.Errorf("waiting for a stall on %s: %w", s.Path, errTriggerGone)}
		notes.Wakeups(s.WakeState)
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
	if w.ended != nil { // closing a pipe cannot fail, and it may be closed already
		_, _ = w.ended.Close(), w.end.Close()
	}
	var faults []error
	for _, s := range w.sources {
		if s.file >= 0 {
			faults = append(faults, unix.Close(s.file))
			s.file = -1
		}
	}
	return errors.Join(faults...)
}
