package pressure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
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

// reopenAfter is the delay before a source that has ended is reopened, and between two
// attempts: when the pods' cgroup is removed, a restarted kubelet creates a new one some
// seconds later.
const reopenAfter = 10 * time.Second

// WakeOptions say where the files are.
type WakeOptions struct {
	// HostRoot and Kubepods are as in [Options].
	HostRoot, Kubepods string
	// CgroupRoot is where cgroups are mounted on the host; "" is /sys/fs/cgroup.
	CgroupRoot string
}

// WakeState is the state of one source.
type WakeState struct {
	Source WakeSource
	// Path and Window are those of the trigger; zero where there is none.
	Path   string
	Window time.Duration
	// Err is why there is no trigger; nil where there is one.
	Err error
	// PassedOver is why the trigger uses its second file and not the first, where the reason
	// is unexpected; otherwise nil.
	PassedOver error
}

// WakeNotes receives what happens to the sources, from several goroutines.
type WakeNotes interface {
	// Woken is called for each event of the kernel, after the wake-up was sent.
	Woken(source WakeSource)
	// Wakeups is called when a source has ended, and when it is open again.
	Wakeups(state WakeState)
}

// Wakers are the kernel's wake-ups. They only trigger an early sample and are never a
// reading. Where the kernel, a mount or a right is missing there are fewer of them or none,
// which is a state and not a failure.
type Wakers struct {
	wake    chan struct{}
	sources []*wakeSource
	again   time.Duration // reopenAfter, or shorter in a test
}

// wakeSource is a source with its trigger, nil where there is none. Run owns it.
type wakeSource struct {
	WakeState
	paths   []string // where a trigger may be opened, the preferred path first
	trigger *stallTrigger
}

// OpenWakers opens the sources that can be opened. Run uses them; call Close where Run is
// never called.
func OpenWakers(options WakeOptions) *Wakers {
	return openWakers(options, "/proc/pressure/memory")
}

// openWakers is OpenWakers with this process's own /proc, which a test replaces.
//
// It tries the node's file below the host root first, and then in this container's own
// /proc. The shipped DaemonSet mounts the host's /proc read-only, which forbids opening for
// writing (EROFS). The container's own is the same file: the kernel does not divide it into
// namespaces, every user may write to it, and runtimes neither mask it nor make it
// read-only. AppArmor's default container profiles refuse it all the same (EACCES,
// containerd's contrib/apparmor/template.go); see docs/signals.md for that.
func openWakers(options WakeOptions, own string) *Wakers {
	place := Options{HostRoot: options.HostRoot}
	node := &wakeSource{WakeState: WakeState{Source: WakeNode}, paths: []string{place.host("/proc/pressure/memory")}}
	if node.paths[0] != own {
		node.paths = append(node.paths, own)
	}
	node.open()
	pods := &wakeSource{WakeState: WakeState{Source: WakeKubepods}}
	group, err := kubepodsPressure(place.host(cmp.Or(options.CgroupRoot, cgroupRoot)), options.Kubepods)
	if err != nil {
		pods.Err = err
	} else {
		pods.paths = []string{group}
		pods.open()
	}
	return &Wakers{wake: make(chan struct{}, 1), sources: []*wakeSource{node, pods}, again: reopenAfter}
}

// errNoUnified is why the pods' cgroup has no file to open.
var errNoUnified = errors.New("only cgroup v2 accounts for the stalls of a group")

// kubepodsPressure returns the PSI file of the pods' cgroup.
func kubepodsPressure(mount, group string) (string, error) {
	if group == "" {
		return "", errNoKubepods
	}
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", errNoUnified
		}
		return "", fmt.Errorf("looking for cgroup v2: %w", err)
	}
	return filepath.Join(mount, group, "memory.pressure"), nil
}

// open opens a trigger on the first path that accepts one, and records the result in the
// state.
func (s *wakeSource) open() {
	s.WakeState = WakeState{Source: s.Source}
	for _, path := range s.paths {
		trigger, window, err := openShortest(path)
		if err == nil {
			if s.Err != nil && !errors.Is(s.Err, unix.EROFS) { // EROFS is expected: the shipped DaemonSet's mount
				s.PassedOver = s.Err
			}
			s.trigger, s.Path, s.Window, s.Err = trigger, path, window, nil
			return
		}
		if s.Err != nil {
			err = fmt.Errorf("%w; %w", s.Err, err)
		}
		s.Err = err
	}
}

// openShortest opens a trigger with the short window, or, where the kernel does not allow
// it, with the one that needs no capability.
func openShortest(path string) (*stallTrigger, time.Duration, error) {
	trigger, err := openTrigger(path, Some, stallPrivileged, windowPrivileged)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
		return trigger, windowPrivileged, err
	}
	trigger, err = openTrigger(path, Some, stallUnprivileged, windowUnprivileged)
	return trigger, windowUnprivileged, err
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

// Run waits for the kernel until the context ends, then closes everything. A source that
// ends, such as with its cgroup, is reported to notes once and reopened as soon as possible.
// A source that could not be opened at all is skipped. No waiting goroutine is left when Run
// returns.
func (w *Wakers) Run(ctx context.Context, notes WakeNotes) error {
	var group sync.WaitGroup
	faults := make([]error, len(w.sources))
	for i, s := range w.sources {
		if s.trigger != nil {
			group.Go(func() { faults[i] = w.follow(ctx, s, notes) })
		}
	}
	<-ctx.Done()
	group.Wait()
	return errors.Join(faults...)
}

// follow forwards one source's events until the context ends. It leaves no trigger open; an
// error comes from closing.
func (w *Wakers) follow(ctx context.Context, s *wakeSource, notes WakeNotes) error {
	for {
		ended, err := w.pass(ctx, s, notes)
		if err != nil || ctx.Err() != nil {
			return err
		}
		s.WakeState = WakeState{Source: s.Source, Err: ended}
		notes.Wakeups(s.WakeState)
		if !w.reopen(ctx, s) {
			return nil
		}
		notes.Wakeups(s.WakeState)
	}
}

// pass sends a wake-up for each event until the trigger or the context ends, and closes the
// trigger. It returns why the trigger ended, and any error of closing it.
func (w *Wakers) pass(ctx context.Context, s *wakeSource, notes WakeNotes) (ended, closing error) {
	trigger := s.trigger
	s.trigger = nil
	stop := context.AfterFunc(ctx, func() { _ = trigger.Close() }) // a second Close returns the same error
	defer stop()
	for {
		if ended = trigger.Wait(); ended != nil {
			return ended, trigger.Close()
		}
		select {
		case w.wake <- struct{}{}:
		default: // one is waiting to be received already
		}
		notes.Woken(s.Source)
	}
}

// reopen retries until the source has a trigger again, and returns false when the context
// ended first. It waits before each attempt, so that a trigger that ends at once does not
// make a busy loop.
func (w *Wakers) reopen(ctx context.Context, s *wakeSource) bool {
	again := time.NewTicker(w.again)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
		}
		if s.open(); s.trigger != nil {
			return true
		}
	}
}

// Close closes every trigger, where Run is not running. Closing again does nothing.
func (w *Wakers) Close() error {
	var faults []error
	for _, s := range w.sources {
		if s.trigger != nil {
			faults = append(faults, s.trigger.Close())
			s.trigger = nil
		}
	}
	return errors.Join(faults...)
}
