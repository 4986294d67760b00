package doctor

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

func TestConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given Configuration
		want  expectation
	}{
		"acts":     {Configuration{File: "/e.yaml"}, expectation{OK, "evicts pods", "", ""}},
		"dry run":  {Configuration{File: "/e.yaml", DryRun: true}, expectation{OK, "dry run", "", ""}},
		"refused":  {Configuration{File: "/e.yaml", Err: errPlanted}, expectation{Missing, "planted; fault", "evicts no pod", "evictd config validate"}},
		"no file":  {Configuration{}, expectation{Degraded, "no file", "default configuration", "--config"}},
		"warnings": {Configuration{File: "/e.yaml", Warnings: []string{"one", "two"}}, expectation{Degraded, "one; two", "not meant", "change"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, configuration(&c.given))
		})
	}
}

func TestCgroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given kernelfile.Hierarchy
		fault error
		want  expectation
	}{
		"v2":          {kernelfile.Hierarchy{Unified: true, PIDs: "/c"}, nil, expectation{OK, "version 2", "", ""}},
		"v2, no pids": {kernelfile.Hierarchy{Unified: true}, nil, expectation{Degraded, "version 2, with the memory controller and without", "pid.available", "pids"}},
		"v1":          {kernelfile.Hierarchy{PIDs: "/c/pids"}, nil, expectation{Degraded, "version 1", "OOM kills", "cgroup v2"}},
		"v1, no pids": {kernelfile.Hierarchy{}, nil, expectation{Degraded, "version 1, with the memory controller and without", "pid.available", "pids"}},
		"none at all": {kernelfile.Hierarchy{}, errPlanted, expectation{Missing, "planted; fault", "does not start", "--host-root"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, cgroups(func() (kernelfile.Hierarchy, error) { return c.given, c.fault }))
		})
	}
}

func TestKubepods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given Pods
		fault error
		want  expectation
	}{
		"found":  {Pods{Group: "/kubepods", Count: 3}, nil, expectation{OK, "/kubepods, pods: 3", "", ""}},
		"none":   {Pods{}, errPlanted, expectation{Missing, "planted", "does not start", "--kubepods-cgroup"}},
		"empty":  {Pods{Group: "/kubepods"}, nil, expectation{Degraded, "/kubepods, pods: 0", "does not get ready", "--kubepods-cgroup"}},
		"unread": {Pods{Group: "/kubepods", Count: 2, Unread: errPlanted}, nil, expectation{Degraded, "pods: 2; planted", "not a candidate", "files"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, kubepods(func() (Pods, error) { return c.given, c.fault }))
		})
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	thresholds := []pressure.Threshold{
		{Signal: pressure.ImageFSAvailable, Hard: true, Quantity: pressure.Fraction(0.25)},
		{Signal: pressure.ImageFSAvailable, Quantity: pressure.Absolute(2 << 30)},
		{Signal: pressure.PIDAvailable, Hard: true, Quantity: pressure.Absolute(100)},
		{Signal: pressure.NodeFSInodesFree, Hard: true, Quantity: pressure.Absolute(100)},
	}
	read := map[pressure.Signal]Reading{
		pressure.MemoryAvailable: {Observation: pressure.Observation{State: pressure.Known, Available: 1 << 30, Capacity: 4 << 30}},
		pressure.ImageFSAvailable: {
			Observation: pressure.Observation{State: pressure.Known, Available: 3 << 30, Capacity: 8 << 30, Device: 42}, Directory: "/var/lib/containerd",
		},
		pressure.PIDAvailable:     {Observation: pressure.Observation{State: pressure.Unknown, Err: errPlanted}},
		pressure.NodeFSInodesFree: {Observation: pressure.Observation{State: pressure.Absent, Err: errors.New("no inodes")}},
	}
	want := map[string]expectation{
		"signal/memory.available":  {OK, "1.0Gi of 4.0Gi; it has no threshold", "", ""},
		"signal/imagefs.available": {OK, "3.0Gi of 8.0Gi on the filesystem of /var/lib/containerd (device 42); hard threshold 2.0Gi; soft threshold 2.0Gi", "", ""},
		"signal/pid.available":     {Missing, "planted", "evicts no pod", "docs/signals.md"},
		"signal/nodefs.inodesFree": {Degraded, "no such signal: no inodes", "never met", "remove"},
	}
	findings := signals(thresholds, func(s pressure.Signal) Reading { return read[s] })
	if len(findings) != len(want) {
		t.Errorf("%d findings, want %d", len(findings), len(want))
	}
	for _, f := range findings {
		want[f.Name].check(t, f)
	}
	lacking := read[pressure.MemoryAvailable]
	lacking.Lacks = "planted"
	expectation{Degraded, "1.0Gi of 4.0Gi; it has no threshold; planted", "could be had", "workingSet"}.check(t,
		signalFinding(pressure.MemoryAvailable, nil, &lacking))
}

func TestWakeUps(t *testing.T) {
	t.Parallel()
	findings := wakeUps(func() []pressure.WakeState {
		return []pressure.WakeState{{Source: pressure.WakeNode, Path: "/p", Window: 2 * time.Second}, {Source: pressure.WakeKubepods, Err: errPlanted}}
	})
	expectation{OK, "/p, with a window of 2s", "", ""}.check(t, findings[0])
	expectation{Degraded, "planted", "pacing", "docs/signals.md"}.check(t, findings[1])
}

func TestStateDir(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]expectation{
		"":       {Degraded, "no directory", "begin anew", "--state-dir"},
		"/state": {OK, "/state", "", ""},
		"/full":  {Missing, "planted", "begin anew", "volume"},
	} {
		want.check(t, stateDir(dir, func(dir string) error {
			if dir == "/full" {
				return errPlanted
			}
			return nil
		}))
	}
}

func TestKubelet(t *testing.T) {
	t.Parallel()
	const memory, disk = pressure.MemoryAvailable, pressure.ImageFSAvailable
	compared := func(findings ...kubeletconfig.Finding) Kubelet {
		return Kubelet{Files: []string{"/k.yaml"}, Compared: kubeletconfig.Result{Compared: []pressure.Signal{memory, disk}, Findings: findings}}
	}
	file := expectation{OK, "/k.yaml", "", ""}
	first := expectation{OK, "evictd acts before the kubelet", "", ""}
	for name, c := range map[string]struct {
		given Kubelet
		want  []expectation
	}{
		"in order": {compared(), []expectation{file, first, first}},
		"absent":   {Kubelet{Err: errPlanted}, []expectation{{Degraded, "planted", "not known", "kubelet-config.patch.yaml"}}},
		"not there although it is named": {
			Kubelet{Named: true, Err: errPlanted},
			[]expectation{{Missing, "planted", "not known", "kubelet-config.patch.yaml"}},
		},
		"not understood": {
			Kubelet{Files: []string{"/k.yaml"}, Unread: []string{"evictionHard[x]: is no signal"}},
			[]expectation{{Degraded, "evictionHard[x]", "left out", "understands"}},
		},
		"the kubelet first": {
			compared(kubeletconfig.Finding{Signal: memory, Kind: kubeletconfig.KubeletFirst, Detail: "both values"}),
			[]expectation{file, {Missing, "both values", "before evictd", "threshold"}, first},
		},
		"the kubelet maybe first": {
			compared(kubeletconfig.Finding{Signal: memory, Kind: kubeletconfig.KubeletMaybeFirst, Detail: "both values"}),
			[]expectation{file, {Degraded, "both values", "may evict", "threshold"}, first},
		},
		"the worst of two": {
			compared(kubeletconfig.Finding{Signal: disk, Kind: kubeletconfig.KubeletFirst, Detail: "one"},
				kubeletconfig.Finding{Signal: disk, Kind: kubeletconfig.BeforeImages, Detail: "two"}),
			[]expectation{file, first, {Missing, "one; two", "before evictd", "threshold"}},
		},
		"before images": {
			compared(kubeletconfig.Finding{Signal: disk, Kind: kubeletconfig.BeforeImages, Detail: "two"}),
			[]expectation{file, first, {Degraded, "two", "unused images", "threshold"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := kubelet(func() Kubelet { return c.given })
			if len(got) != len(c.want) {
				t.Fatalf("findings %+v, want %d", got, len(c.want))
			}
			for i, want := range c.want {
				want.check(t, got[i])
			}
		})
	}
}
