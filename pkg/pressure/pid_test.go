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

// TestPIDNamespace: since 6.14 the limit of another PID namespace is not the node's, and a signal that
// can never be read fails the start.
func TestPIDNamespace(t *testing.T) {
	t.Parallel()
	const own, other, unread, anothers = initialPIDNamespace, "pid:[4026532201]", "", "hostPID: true"
	read := func(value string) func() (string, error) {
		return func() (string, error) {
			if value == unread {
				return "", errors.New("broken")
			}
			return value, nil
		}
	}
	for _, tc := range []struct {
		release, namespace string
		want               string // in the error; "" is none
	}{
		{"6.18.1", own, ""},
		{"6.14.0", unread, "broken"},
		{"6.13.12", unread, ""},
		{unread, own, "broken"},
		{"6.14.0-rc1", other, anothers},
		{"6.14", other, anothers},
		{"6.18.44-generic", other, anothers},
		{"7.0.1", other, anothers},
		{"6.13.9", other, ""},
		{"5.15.0-91", other, ""},
		{"4.19", other, ""},
		{"6", own, `release "6"`},
		{"6.", own, `release "6."`},
		{"linux", own, `release "linux"`},
		{"-6.14", own, `release "-6.14"`},
		{"6,14", own, `release "6,14"`},
	} {
		sys := fakeSystem()
		sys.release, sys.pidNamespace = read(tc.release), read(tc.namespace)
		n, err := open(Options{HostRoot: procTree().Plant(t), Signals: []Signal{PIDAvailable}}, sys)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v", tc, err)
		}
		if err == nil {
			_ = n.Close()
		}
	}
}
