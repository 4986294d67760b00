package cluster

import (
	"errors"
	"os/exec"
	"path/filepath"
)

// ErrNoRunc says that runc, which no Go module builds, is not installed.
var ErrNoRunc = errors.New("runc is not installed; on Debian: apt-get install runc")

func findRunc() (string, error) { return findProgram("runc", ErrNoRunc) }

// findProgram also searches the directories that a user's PATH often lacks, such as sbin.
func findProgram(name string, missing error) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"} {
		if path := filepath.Join(dir, name); isFile(path) {
			return path, nil
		}
	}
	return "", missing
}
