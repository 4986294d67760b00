package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// InstallPackages installs the programs of a node that no Go module builds, and logs that:
// runc, and mkfs.ext4 for a node with its own disk. It does so where they are missing, this
// is Debian and the caller is root. Otherwise it returns [ErrNoRunc] or [ErrNoMkfs]. The
// packages stay when the cluster stops.
func InstallPackages(ctx context.Context, options Options) error {
	if err := install(ctx, options.Log, "runc", findRunc); err != nil || options.Disk == nil {
		return err
	}
	return install(ctx, options.Log, "e2fsprogs", findMkfs)
}

func install(ctx context.Context, log io.Writer, name string, find func() (string, error)) error {
	_, missing := find()
	if missing == nil {
		return nil
	}
	if os.Geteuid() != 0 || !isFile("/etc/debian_version") {
		return missing
	}
	if log != nil {
		say(log, "Installing Debian's package %s, which stays on this machine.", name)
	}
	for _, arguments := range [][]string{{"update"}, {"install", "--yes", "--no-install-recommends", name}} {
		command := exec.CommandContext(ctx, "apt-get", arguments...) //nolint:gosec // constants
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("installing %s: apt-get %s: %w: %s", name, arguments[0], err, lastLines(string(output), 5))
		}
	}
	_, err := find()
	return err
}
