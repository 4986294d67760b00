package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoRunc says that runc, which no Go module builds, is not installed.
var ErrNoRunc = errors.New("runc is not installed; on Debian: apt-get install runc")

// findRunc looks where distributions put it: a user's PATH often lacks sbin.
func findRunc() (string, error) {
	if path, err := exec.LookPath("runc"); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"} {
		if path := filepath.Join(dir, "runc"); isFile(path) {
			return path, nil
		}
	}
	return "", ErrNoRunc
}

// InstallRunc installs Debian's package of runc when runc is missing, this is
// Debian and the caller is root, and says so in the log. Otherwise it returns
// [ErrNoRunc]. The package stays when the cluster stops.
func InstallRunc(ctx context.Context, options Options) error {
	if _, err := findRunc(); err == nil {
		return nil
	}
	if os.Geteuid() != 0 || !isFile("/etc/debian_version") {
		return ErrNoRunc
	}
	if options.Log != nil {
		say(options.Log, "Installing Debian's package runc, which stays on this machine.")
	}
	for _, arguments := range [][]string{{"update"}, {"install", "--yes", "--no-install-recommends", "runc"}} {
		command := exec.CommandContext(ctx, "apt-get", arguments...) //nolint:gosec // constants
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("installing runc: apt-get %s: %w: %s", arguments[0], err, lastLines(string(output), 5))
		}
	}
	_, err := findRunc()
	return err
}
