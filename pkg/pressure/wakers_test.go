package pressure

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// notes collects what Run tells: each event by its source, each change as a state.
type notes struct {
	woken  chan WakeSource
	states chan WakeState
}

func (n notes) Woken(source WakeSource) { n.woken <- source }
func (n notes) Wakeups(state WakeState) { n.states <- state }

// running starts the wakers. The returned function stops them and fails if anything is left.
func running(t *testing.T, w *Wakers) (notes, func()) {
	t.Helper()
	told := notes{make(chan WakeSource, 1000), make(chan WakeState, 1000)}
	poll := w.poll
	w.poll = func(files []unix.PollFd, timeout int) (int, error) {
		if timeout != pollFor {
			t.Errorf("one poll waits for %d ms, and may never see the end of the context", timeout)
		}
		return poll(files, 10)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, told) }()
	return told, func() {
		t.Helper()
		cancel()
		if err := errors.Join(within(t, "the end of Run", done), w.Close(), w.Close()); err != nil {
			t.Error(err)
		}
		if left := [...]int{w.sources[0].file, w.sources[1].file}; left != [...]int{-1, -1} {
			t.Errorf("descriptors %d are left", left)
		}
	}
}

// newFakeWakers has a source of the node and one of the pods, in a bubble of synctest. What is sent to it is what the
// kernel says of the two by one poll.
func newFakeWakers(t *testing.T) (w *Wakers, events chan<- [2]int16) {
	t.Helper()
	w = openWakers(Options{HostRoot: t.TempDir()}, cgroupRoot, "/dev/null/none")
	w.sources = []WakeState{{Source: WakeNode}, {Source: WakeKubepods, Path: "a group", Window: windowPrivileged}}
	for i := range w.sources {
		var err error
		w.sources[i].file, err = unix.Open(os.DevNull, unix.O_CLOEXEC, 0)
		must(t, err)
	}
	said := make(chan [2]int16)
	w.poll = func(files []unix.PollFd, timeout int) (int, error) {
		select {
		case now := <-said:
			for i := range files {
				if files[i].Fd >= 0 { // as the kernel does
					files[i].Revents = files[i].Events&now[i] | now[i]&(unix.POLLERR|unix.POLLHUP)
				}
			}
			return len(files), nil
		case <-time.After(time.Duration(timeout) * time.Millisecond):
			return 0, nil
		}
	}
	return w, said
}

func TestAStormIsOneWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, events := newFakeWakers(t)
		told, end := running(t, w)
		for range 100 { // no receiver: one that blocked would note only one event
			events <- [2]int16{unix.POLLPRI, 0}
			if got := within(t, "the note", told.woken); got != WakeNode {
				t.Fatalf("noted %s", got)
			}
		}
		if n := len(w.Wake()); n != 1 {
			t.Errorf("%d wake-ups after 100 events that were not received; want 1", n)
		}
		<-w.Wake()
		events <- [2]int16{unix.POLLPRI, 0}
		within(t, "a wake-up after the storm", w.Wake())
		end()
		if n := len(told.woken) + len(told.states); n > 1 {
			t.Errorf("%d more notes than events", n-1)
		}
	})
}

func TestASourceThatEndsIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, events := newFakeWakers(t)
		told, end := running(t, w)
		for range 20 { // the other source continues
			events <- [2]int16{unix.POLLPRI, unix.POLLPRI | unix.POLLERR}
			if source := within(t, "the note", told.woken); source != WakeNode {
				t.Errorf("noted %s; want an event of the node", source)
			}
		}
		got := within(t, "the end", told.states)
		if got.Source != WakeKubepods || !errors.Is(got.Err, errTriggerGone) || !strings.Contains(got.Err.Error(), "a group") || got.Path != "" || got.Window != 0 {
			t.Errorf("noted %+v; want the end of kubepods", got)
		}
		end()
		if n := len(told.states); n != 0 {
			t.Errorf("%d more states: %+v", n, <-told.states)
		}
	})
}

// TestOpenWakersOnThisMachine: an invalid file in place of the host's does not prevent wake-ups.
func TestOpenWakersOnThisMachine(t *testing.T) {
	t.Parallel()
	mustTrigger(t, nodePSI)
	for _, root := range []string{"", tree{"proc/pressure/memory": "some avg10=0"}.Plant(t)} {
		w := OpenWakers(root, "")
		states := w.States()
		_, end := running(t, w)
		end()
		if len(states) != 2 || states[0].Source != WakeNode || states[1].Source != WakeKubepods {
			t.Fatalf("states are %+v; want one for each source", states)
		}
		if s := states[0]; s.Err != nil || s.Path != nodePSI || s.Window != ownWindow(t) {
			t.Errorf("root %q: the node's state is %+v; want a trigger on %s", root, s, nodePSI)
		}
		if !errors.Is(states[1].Err, errNoKubepods) {
			t.Errorf("the pods' state is %+v; want %v", states[1], errNoKubepods)
		}
	}
}

// TestWakersWithoutPSI is a node where nothing can be opened: a state for each
// source and no wake-up.
func TestWakersWithoutPSI(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node           tree
		group          string
		wantNode, want error
	}{
		"v2, no PSI":    {v2Tree(), "/kubepods.slice", unix.ENOENT, unix.ENOENT},
		"no kubepods":   {v2Tree(), "", unix.ENOENT, errNoKubepods},
		"file in place": {tree{"proc/pressure/memory": "some avg10=0", "sys/fs/cgroup/cgroup.controllers": "", "sys/fs/cgroup/k/memory.pressure": "some avg10=0"}, "/k", errNotPSI, errNotPSI},
		"no directory":  {tree{"proc/pressure": "", "sys/fs/cgroup": ""}, "/k", unix.ENOTDIR, unix.ENOTDIR},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tc.node.Plant(t)
			own := filepath.Join(t.TempDir(), "own")
			w := openWakers(Options{HostRoot: root, Kubepods: tc.group}, cgroupRoot, own)
			for i, want := range []error{tc.wantNode, tc.want} {
				s := w.States()[i]
				if s.Source != []WakeSource{WakeNode, WakeKubepods}[i] || !errors.Is(s.Err, want) || s.Path != "" || s.Window != 0 {
					t.Errorf("state is %+v; want no trigger and %v", s, want)
				}
			}
			if err := w.States()[0].Err; !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), own) || !strings.Contains(err.Error(), root) {
				t.Errorf("the node's error is %v; want both places", err)
			}
			told, end := running(t, w)
			end()
			if len(told.woken)+len(told.states)+len(w.Wake()) != 0 {
				t.Error("something woke, or a state was told again")
			}
		})
	}
}
