package pressure

import (
	"errors"
	"strings"
	"testing"
)

func TestPIDs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pidMax, threadsMax string
		want               Observation // the zero value cannot be read
	}{
		"pid_max is smaller":     {"5000\n", "6000\n", known(3980, 5000)},
		"threads-max is smaller": {"6000\n", "5000\n", known(3980, 5000)},
		"more tasks than PIDs":   {"1000\n", "6000\n", known(-20, 1000)},
		"zero":                   {"0\n", "6000\n", Observation{}},
	} {
		node := procTree()
		node["proc/sys/kernel/pid_max"], node["proc/sys/kernel/threads-max"] = tc.pidMax, tc.threadsMax
		n, err := open(Options{HostRoot: node.Plant(t), Signals: []Signal{PIDAvailable}}, fakeSystem())
		if (err == nil) != (tc.want.State == Known) {
			t.Errorf("%s: %v; want %+v", name, err, tc.want)
		}
		if err != nil {
			continue
		}
		if s := n.Sample(moment(0)); s.Of(PIDAvailable) != tc.want {
			t.Errorf("%s: got %+v; want %+v", name, s.Of(PIDAvailable), tc.want)
		}
		_ = n.Close()
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
