package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plant creates a state directory as an earlier start left it.
func plant(t *testing.T, change func(*state)) string {
	t.Helper()
	dir, err := realPath(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	planted := state{BootID: boot}
	if change != nil {
		change(&planted)
	}
	if err := planted.write(dir, true); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStopTwice(t *testing.T) {
	dir := plant(t, nil)
	for _, name := range append(ownedFolders(), "logs") {
		if err := os.MkdirAll(filepath.Join(dir, name, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left %v, error %v", entries, err)
	}
	if _, err := Attach(dir); !errors.Is(err, ErrNoCluster) {
		t.Errorf("attaching afterwards: %v", err)
	}
}

func TestStopKeepsLogsAndStrangers(t *testing.T) {
	dir := plant(t, func(s *state) { s.KeepLogs = true })
	for _, name := range []string{"logs", "etcd", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err = c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != "logs" || entries[1].Name() != "other" {
		t.Errorf("left %v, error %v", entries, err)
	}
}

func TestStopEndsWhatIsRecordedAndNothingElse(t *testing.T) {
	recorded, stranger := startSleeper(t), startSleeper(t)
	dir := plant(t, func(s *state) {
		s.Components = []component{
			{Name: "etcd", Process: recorded},
			{Name: "kube-apiserver", Process: Process{PID: stranger.PID, StartTime: stranger.StartTime + 1}},
		}
	})
	c, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if recorded.Running() {
		t.Error("the recorded process still runs")
	}
	if !stranger.Running() {
		t.Error("a process was ended that only has the number of a recorded one")
	}
}

func TestProcessesOfAnEarlierBootAreGone(t *testing.T) {
	stranger := startSleeper(t)
	dir := plant(t, func(s *state) {
		s.BootID = "another"
		s.Components = []component{{Name: "etcd", Process: stranger}}
		s.Sysctls = map[string]string{"kernel/panic": "77"}
	})
	c, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !stranger.Running() {
		t.Error("a process of this boot was ended for one of an earlier boot")
	}
}

func TestClaim(t *testing.T) {
	sleeper := startSleeper(t)
	running := plant(t, func(s *state) { s.Components = []component{{Name: "etcd", Process: sleeper}} })
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "thesis.txt"), "years of work", 0o600)
	crashed := plant(t, func(s *state) { s.Components = []component{{Name: "etcd"}} })
	fresh := filepath.Join(t.TempDir(), "a", "b")
	for _, test := range []struct{ name, dir, complaint string }{
		{"running", running, ErrRunning.Error()},
		{"foreign", foreign, "thesis.txt"},
		{"crashed", crashed, ""},
		{"fresh", fresh, ""},
		{"being started by this very program", fresh, ErrRunning.Error()},
	} {
		options, err := Options{Dir: test.dir, BinDir: t.TempDir()}.complete()
		if err != nil {
			t.Fatal(err)
		}
		_, err = claim(t.Context(), options)
		if (err == nil) != (test.complaint == "") || err != nil && !strings.Contains(err.Error(), test.complaint) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.complaint)
		}
	}
	if string(read(t, filepath.Join(foreign, "thesis.txt"))) != "years of work" {
		t.Error("a stranger's file was touched")
	}
}

func TestUnknownProcess(t *testing.T) {
	dir := plant(t, func(s *state) { s.Components = []component{{Name: "etcd"}} })
	c, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StopProcess(t.Context(), "kubelet"); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("error %v does not say what there is", err)
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := freePorts(t.Context(), loopback, 20)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if distinct := slices.Compact(slices.Clone(ports)); len(distinct) != len(ports) {
		t.Errorf("ports %v are not distinct", ports)
	}
	for _, port := range ports {
		listener, err := listen(t.Context(), loopback, port)
		if err != nil {
			t.Errorf("port %d: %v", port, err)
			continue
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMissingControllers(t *testing.T) {
	got := missingControllers("cpuset cpu io memory pids rdma misc\n", "cpu memory\n")
	if want := []string{"cpuset", "pids"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		name      string
		options   Options
		complaint string
	}{
		{"no folder", Options{BinDir: "/x"}, "Dir is empty"},
		{"bad name", Options{Dir: "/x", BinDir: "/x", NodeName: "../up"}, "DNS label"},
		{"good", Options{Dir: "/x", BinDir: "/x"}, ""},
	} {
		_, err := test.options.complete()
		if (err == nil) != (test.complaint == "") || err != nil && !strings.Contains(err.Error(), test.complaint) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.complaint)
		}
	}
}
