package api

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evictd/evictd/test/internal/eventually"
)

// The kernel ends the processes of a cluster with the program that started them, also where that is killed.
func TestClusterEndsWithAKilledProgram(t *testing.T) {
	t.Parallel()
	program, dir := filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "cluster")
	text, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../cluster", "-o", program, "./cmd/cluster").CombinedOutput()
	if err != nil {
		t.Fatalf("building it: %v: %s", err, text)
	}
	command := exec.CommandContext(t.Context(), program, "--control-plane", "--bin", os.Getenv("EVICTD_CLUSTER_BIN"), "--dir", dir)
	command.Stderr = t.Output()
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(output).ReadString('\n')
	if running := processesOf(dir); len(running) != 4 { // with the program itself
		t.Errorf("it said %q (%v), and of it run %v", said, err, running)
	}
	eventually.Undo(t, func(context.Context) {
		for _, pid := range processesOf(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	_ = command.Process.Kill() // where it fails, they stay
	_ = command.Wait()
	eventually.Until(t, "no process of the cluster is left", func(context.Context) bool { return len(processesOf(dir)) == 0 })
}

// processesOf returns the processes that were told that folder.
func processesOf(dir string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		command, _ := os.ReadFile(file) // of one that has ended there is nothing
		if pid := 0; strings.Contains(string(command), dir) {
			_, _ = fmt.Sscanf(file, "/proc/%d/", &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}
