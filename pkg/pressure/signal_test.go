package pressure_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

// TestEachSignalHasAWholeRow fails when a signal was added with an incomplete row, and checks each column
// against the others. Two signals are read as the kubelet's memory.available, which is one of them; all others
// are its own.
func TestEachSignalHasAWholeRow(t *testing.T) {
	t.Parallel()
	units := map[pressure.Kind][]pressure.Unit{
		pressure.MemoryKind: {pressure.Bytes, pressure.Microseconds}, pressure.PIDKind: {pressure.Tasks},
		pressure.SpaceKind: {pressure.Bytes}, pressure.InodeKind: {pressure.Inodes},
	}
	names := map[string]bool{}
	for _, s := range pressure.Signals() {
		onDisk, memory := s.Kind() == pressure.SpaceKind || s.Kind() == pressure.InodeKind, s.Kind() == pressure.MemoryKind
		kubelets := s == pressure.KubeletMemoryAvailable
		if !slices.Contains(units[s.Kind()], s.Unit()) || s.Source() == "" || s.OnDisk() != onDisk || onDisk != (s.Source() == pressure.FilesystemSource) {
			t.Errorf("%v: kind %d, unit %s, filesystem %d, source %s do not agree", s, s.Kind(), s.Unit(), s.Filesystem(), s.Source())
		}
		if s.ReclaimMeasured() != (!onDisk && s.Unit() != pressure.Microseconds) {
			t.Errorf("%v: what is reclaimed is measured: %t", s, s.ReclaimMeasured())
		}
		if names[s.String()] || !strings.Contains(s.String(), ".") {
			t.Errorf("%v: a signal's name is its own, and has a dot", s)
		}
		names[s.String()] = true
		var read pressure.Signal
		text, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if err != nil || read != s || string(text) != `"`+s.String()+`"` {
			t.Errorf("%v is written as %s and read as %v, %v", s, text, read, err)
		}
		theirs, has := s.Kubelets()
		if has == (s == pressure.MemoryStall) || kubelets && theirs != pressure.MemoryAvailable || !kubelets && theirs != s {
			t.Errorf("%v is the kubelet's %v, %v", s, theirs, has)
		}
		if s.CountsWorkingSet(pressure.Kernel) != kubelets || s.CountsWorkingSet(pressure.WorkingSet) != memory {
			t.Errorf("%v: which definition counts the working set", s)
		}
	}
	var read pressure.Signal
	if err := json.Unmarshal([]byte(`"swap.available"`), &read); err == nil {
		t.Errorf("a name that no signal has is read as %v", read)
	}
}
