package pressure

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

func TestPIDs(t *testing.T) {
	t.Parallel()
	const pidMax, threadsMax = "proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"
	unknown := Observation{State: Unknown}
	for name, tc := range map[string]struct {
		files tree
		want  Observation
	}{
		"pid_max is smaller":     {tree{pidMax: "5000\n", threadsMax: "6000\n"}, known(3980, 5000)},
		"threads-max is smaller": {tree{pidMax: "6000\n", threadsMax: "5000\n"}, known(3980, 5000)},
		"only pid_max":           {tree{pidMax: "5000\n"}, unknown},
		"only threads-max":       {tree{threadsMax: "5000\n"}, unknown},
		"more tasks than PIDs":   {tree{pidMax: "1000\n", threadsMax: "6000\n"}, known(-20, 1000)},
		"neither":                {tree{}, unknown},
		"zero":                   {tree{pidMax: "0\n", threadsMax: "6000\n"}, unknown},
		"one makes no sense":     {tree{pidMax: "many\n", threadsMax: "6000\n"}, unknown},
		"one cannot be read":     {tree{pidMax: directory, threadsMax: "6000\n"}, unknown},
		"one is empty":           {tree{pidMax: "5000\n", threadsMax: ""}, unknown},
	} {
		root := procTree().Plant(t)
		n := mustOpen(t, Options{HostRoot: root, Signals: []Signal{PIDAvailable}}, fakeSystem())
		_ = n.Close()
		kernelfiletest.Put(t, filepath.Join(root, "proc/sys/kernel"), directory)
		for path, content := range tc.files {
			kernelfiletest.Put(t, filepath.Join(root, path), content)
		}
		s := n.Sample(moment(0))
		got := s.Of(PIDAvailable)
		why := got.Err
		if got.Err = nil; got != tc.want || (why == nil) != (tc.want.State == Known) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, why, tc.want)
		}
	}
}

// TestPIDNamespace: the limit of another PID namespace is not the node's, and a signal that
// can never be read fails the start.
func TestPIDNamespace(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		release, namespace       string
		releaseErr, namespaceErr error
		want                     string // in the error; "" is none
	}{
		"host's":                     {release: "6.18.1", namespace: initialPIDNamespace},
		"another one":                {release: "6.14.0", namespace: "pid:[4026532201]", want: "hostPID: true"},
		"another one, older kernel":  {release: "6.13.12", namespace: "pid:[4026532201]"},
		"unknown":                    {release: "6.14.0", namespaceErr: broken, want: "broken"},
		"unknown, older kernel":      {release: "6.13.12", namespaceErr: broken},
		"unknown kernel":             {releaseErr: broken, namespace: initialPIDNamespace, want: "broken"},
		"kernel that makes no sense": {release: "plan9", namespace: initialPIDNamespace, want: "plan9"},
	} {
		sys := fakeSystem()
		sys.release = func() (string, error) { return tc.release, tc.releaseErr }
		sys.pidNamespace = func() (string, error) { return tc.namespace, tc.namespaceErr }
		n, err := open(Options{HostRoot: procTree().Plant(t), Signals: []Signal{PIDAvailable}}, sys)
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s := n.Sample(moment(0)); s.Of(PIDAvailable).State != Known {
			t.Errorf("%s: got %+v; want it known", name, s.Of(PIDAvailable))
		}
		_ = n.Close()
	}
}

// The first release whose pid_max is that of a namespace is 6.14.
func TestRelease(t *testing.T) {
	t.Parallel()
	sys := fakeSystem()
	sys.pidNamespace = func() (string, error) { return "pid:[4026532201]", nil }
	for release, want := range map[string]bool{
		"6.13.9": false, "6.14.0-rc1": true, "6.14": true, "6.18.44-generic": true, "7.0.1": true, "5.15.0-91": false, "4.19": false,
	} {
		sys.release = func() (string, error) { return release, nil }
		if err := pidMaxVisible(sys); errors.Is(err, errPIDNamespace) != want || !want && err != nil {
			t.Errorf("%q: %v; want that pid_max is a namespace's to be %t", release, err, want)
		}
	}
	for _, release := range []string{"", "6", "6.", "linux", "-6.14", "6,14"} {
		sys.release = func() (string, error) { return release, nil }
		if err := pidMaxVisible(sys); err == nil || errors.Is(err, errPIDNamespace) {
			t.Errorf("%q: %v; want that it is no release", release, err)
		}
	}
}
