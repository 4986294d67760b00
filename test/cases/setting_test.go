package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// harnessFailed is the exit code of a process that did not become evictd.
const harnessFailed = 125

// becomes makes what only the process itself can have, and then becomes its arguments: a filesystem with the files
// that are there, and a limit of open files.
const becomes = `
if [ -n "$DISK" ]; then
	cp -a "$DISK" "$WAS" && mount -t tmpfs -o "size=$SIZE" tmpfs "$DISK" && cp -a "$WAS/." "$DISK" || exit 125
fi
[ -z "$OPEN_FILES" ] || ulimit -n "$OPEN_FILES" || exit 125
exec "$@"`

// command returns the process of evictd with these arguments on the node.
func (n *node) command(arguments []string) *exec.Cmd {
	command := exec.Command("sh", append([]string{"-c", becomes, "sh", binary}, arguments...)...)
	command.Env = append(os.Environ(), "DISK=", "OPEN_FILES=")
	if n.of.Disk != nil {
		command.Env = append(command.Env, "DISK="+n.path(kubelet), "WAS="+filepath.Join(filepath.Dir(n.Root), "was"), fmt.Sprintf("SIZE=%d", n.of.Disk.Value()))
		command.SysProcAttr = mayMount()
	}
	if n.of.OpenFiles > 0 {
		command.Env = append(command.Env, fmt.Sprintf("OPEN_FILES=%d", n.of.OpenFiles))
	}
	return command
}

// mayMount are the attributes of a process with a mount namespace of its own: root's, or that of a user
// namespace, where the machine allows one.
func mayMount() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attributes
}

// mountable returns why no process may mount a filesystem here; "" where it may.
var mountable = sync.OnceValue(func() string {
	command := exec.Command("mount", "-t", "tmpfs", "tmpfs", os.TempDir())
	command.SysProcAttr = mayMount()
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Sprintf("%v: %s", err, text)
	}
	return ""
})

// needsDisk skips a case with a disk where no process may mount one.
func needsDisk(t *testing.T, c *Case) {
	t.Helper()
	if c.Node.Disk == nil {
		return
	}
	if reason := mountable(); reason != "" {
		t.Skipf("the case needs a filesystem of its own, and this user may not mount one here: %s", reason)
	}
}
