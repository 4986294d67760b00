package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// settingVariable holds the setting of a process that this test binary is to become.
const settingVariable = "EVICTD_CASE_SETTING"

// setting is what a process needs that only it can make, between its start and evictd's: the test binary
// starts itself, makes it and becomes evictd.
type setting struct {
	Disk      string   `json:"disk"`      // where a filesystem is mounted in a mount namespace of its own; "" for none
	Size      int64    `json:"size"`      // of it
	OpenFiles uint64   `json:"openFiles"` // the limit; 0 leaves it
	Arguments []string `json:"arguments"` // without any the process only ends
}

// command returns the process to start.
func (s *setting) command() (*exec.Cmd, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), settingVariable+"="+string(text))
	if s.Disk != "" {
		command.SysProcAttr = mayMount()
	}
	return command, nil
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

// become makes the setting of the variable and becomes its program. It returns a fault, or nil without a program.
func become(text string) error {
	var s setting
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	if s.Disk != "" {
		if err := s.mount(); err != nil {
			return err
		}
	}
	if s.OpenFiles > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: s.OpenFiles, Max: s.OpenFiles}); err != nil {
			return fmt.Errorf("limiting the open files to %d: %w", s.OpenFiles, err)
		}
	}
	if err := os.Unsetenv(settingVariable); err != nil || len(s.Arguments) == 0 {
		return err
	}
	return syscall.Exec(s.Arguments[0], s.Arguments, os.Environ())
}

// mount mounts the disk, with the files that are there.
func (s *setting) mount() error {
	below, err := os.OpenRoot(s.Disk)
	if err != nil {
		return err
	}
	defer below.Close()
	if err = syscall.Mount("tmpfs", s.Disk, "tmpfs", 0, fmt.Sprintf("size=%d", s.Size)); err != nil {
		return fmt.Errorf("mounting a filesystem: %w", err)
	}
	return os.CopyFS(s.Disk, below.FS())
}

// mountable returns why no process may mount a filesystem here; "" where it may.
var mountable = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "evictd-cases-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	s := setting{Disk: dir, Size: mebibyte}
	command, err := s.command()
	if err != nil {
		return err.Error()
	}
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
