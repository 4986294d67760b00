package pressure_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

// TestEachSignalHasAWholeRow fails when a signal was added with an incomplete row.
func TestEachSignalHasAWholeRow(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range pressure.Signals() {
		if s.Unit() == "" || s.Source() == "" {
			t.Errorf("%v: unit %q, source %q: both must be set", s, s.Unit(), s.Source())
		}
		if names[s.String()] || !strings.Contains(s.String(), ".") {
			t.Errorf("%v: a signal's name is its own, and has a dot", s)
		}
		names[s.String()] = true
		if parsed, err := pressure.ParseSignal(s.String()); err != nil || parsed != s {
			t.Errorf("ParseSignal(%q) is %v, %v", s, parsed, err)
		}
		var read pressure.Signal
		text, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if err != nil || read != s || string(text) != `"`+s.String()+`"` {
			t.Errorf("%v is written as %s and read as %v, %v", s, text, read, err)
		}
	}
	var read pressure.Signal
	if err := json.Unmarshal([]byte(`"swap.available"`), &read); err == nil {
		t.Errorf("a name that no signal has is read as %v", read)
	}
}

// TestSignalKindsAgreeWithTheirRows checks each column against the others.
func TestSignalKindsAgreeWithTheirRows(t *testing.T) {
	t.Parallel()
	units := map[pressure.Kind][]pressure.Unit{
		pressure.MemoryKind: {pressure.Bytes, pressure.Microseconds},
		pressure.PIDKind:    {pressure.Tasks},
		pressure.SpaceKind:  {pressure.Bytes},
		pressure.InodeKind:  {pressure.Inodes},
	}
	for _, s := range pressure.Signals() {
		onDisk := s.Kind() == pressure.SpaceKind || s.Kind() == pressure.InodeKind
		fits := false
		for _, unit := range units[s.Kind()] {
			fits = fits || s.Unit() == unit
		}
		switch {
		case !fits:
			t.Errorf("%v is of kind %d and counts %s", s, s.Kind(), s.Unit())
		case s.OnDisk() != onDisk, onDisk != (s.Source() == pressure.FilesystemSource), onDisk != (s.Reclaim() == pressure.ReclaimLater):
			t.Errorf("%v: kind %d, filesystem %d, source %s, reclaim %d do not agree", s, s.Kind(), s.Filesystem(), s.Source(), s.Reclaim())
		}
	}
}

// TestSignalsOfTheKubelet: two signals are read as the kubelet's memory.available, which is one of
// them, and all others are its own.
func TestSignalsOfTheKubelet(t *testing.T) {
	t.Parallel()
	for _, s := range pressure.Signals() {
		want, has := s, s != pressure.MemoryStall
		if s == pressure.KubeletMemoryAvailable {
			want = pressure.MemoryAvailable
		}
		if got, is := s.Kubelets(); got != want || is != has {
			t.Errorf("%v is the kubelet's %v, %v", s, got, is)
		}
	}
}

func TestWhichSignalsCountTheWorkingSet(t *testing.T) {
	t.Parallel()
	for _, s := range pressure.Signals() {
		if got := s.CountsWorkingSet(pressure.Kernel); got != (s == pressure.KubeletMemoryAvailable) {
			t.Errorf("%v by the kernel's definition: %v", s, got)
		}
		if got := s.CountsWorkingSet(pressure.WorkingSet); got != (s.Kind() == pressure.MemoryKind) {
			t.Errorf("%v by the working set: %v", s, got)
		}
	}
}
