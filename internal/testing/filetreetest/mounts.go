// Package filetreetest makes mounts for tests of what looks at files.
package filetreetest

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// InMountNamespace runs a test on a thread with mounts of its own, which end with it. It
// needs root, and skips the test without.
func InMountNamespace(t *testing.T, run func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock it
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
			t.Errorf("making a mount namespace: %v", err)
			return
		}
		run()
	}()
	<-done
}
