package usage

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/pkg/pressure"
)

// TestMountsChange: the sampler and the disk measurement, both opened before, detect a
// filesystem that is mounted over the image directory, or unmounted from it.
func TestMountsChange(t *testing.T) {
	t.Parallel()
	if !withOwnMounts(t) {
		return
	}
	h := newHostOfWeb(t)
	sampler, err := pressure.Open(pressure.Options{
		HostRoot: h.root, Signals: []pressure.Signal{pressure.NodeFSAvailable, pressure.ImageFSAvailable},
	})
	if err != nil {
		t.Fatal(err)
	}
	disk := h.open(t, nil)
	const size = 64 << 20
	check := func(when string, dedicated bool) {
		t.Helper()
		if got, err := sampler.DedicatedImageFS(); err != nil || got != dedicated {
			t.Errorf("%s: DedicatedImageFS is %t, %v; want %t", when, got, err, dedicated)
		}
		sample := sampler.Sample(measuredAt())
		if images := sample.Of(pressure.ImageFSAvailable); (images.Capacity == size) != dedicated {
			t.Errorf("%s: imagefs.available is %+v", when, images)
		}
		use := measureOne(t, disk)
		layersOf := use.NodeFS
		if dedicated {
			layersOf = use.ImageFS
		}
		if use.Reason != "" || layersOf[Layers].Bytes < kib32 || (use.NodeFS == use.ImageFS) == dedicated {
			t.Errorf("%s: the pod's use is %+v", when, use)
		}
	}
	check("at first", false)
	images := h.at("/var/lib/containerd")
	if err := unix.Mount("none", images, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	h.file(snapshots + "/7/fs/tmp/written")
	check("mounted", true)
	if err := unix.Unmount(images, 0); err != nil {
		t.Fatal(err)
	}
	check("unmounted", false)
}

// withOwnMounts runs the test again in a process with a private mount namespace, and reports
// whether this is that process.
func withOwnMounts(t *testing.T) bool {
	t.Helper()
	const variable = "EVICTD_USAGE_TEST_OWN_MOUNTS"
	if os.Getenv(variable) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIP: mounting needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), variable+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} // which makes them private
	if output, err := again.CombinedOutput(); err != nil {
		t.Errorf("with mounts of its own: %v\n%s", err, output)
	}
	return false
}
