package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// binaries are the programs that build.sh builds for a control plane, and with node those of a node too.
func binaries(node bool) []string {
	names := []string{"workload", "etcd", "kube-apiserver", "kube-controller-manager", "kubectl"}
	if node {
		names = append(names, "kube-scheduler", "kubelet", "containerd", "containerd-shim-runc-v2", "ctr")
	}
	return names
}

// checkBuilt reports what is missing in binDir before anything is started.
func checkBuilt(binDir string, node bool) error {
	missing := slices.DeleteFunc(binaries(node), func(name string) bool { return isFile(filepath.Join(binDir, name)) })
	if len(missing) > 0 {
		return fmt.Errorf("looking for %s in %s: not built: run 'make cluster-build', or for a node 'make node-build'", strings.Join(missing, ", "), binDir)
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // looks, and reads nothing
	return err == nil && info.Mode().IsRegular()
}

// findProgram looks for a program of a Debian package, also in the directories that a user's PATH often lacks.
func findProgram(name, of string) (string, error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin") {
		if path := filepath.Join(dir, name); isFile(path) {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("%s is not installed; on Debian: apt-get install %s", name, of)
}

// say writes one sentence of progress. A writer that fails must not fail the cluster.
func say(log io.Writer, format string, arguments ...any) {
	_, _ = fmt.Fprintf(log, format+"\n", arguments...)
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
