package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// startSleeper starts a process for the test.
func startSleeper(t *testing.T) Process {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	sleeper, err := launch(sleep, []string{"300"}, nil, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sleeper.stop(t.Context(), 0); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		_ = sleeper.signal(9)
	})
	return sleeper
}

func TestStopEndsTheProcess(t *testing.T) {
	sleeper := startSleeper(t)
	if !sleeper.Running() {
		t.Fatal("the process does not run")
	}
	if err := sleeper.stop(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if sleeper.Running() {
		t.Error("the process still runs")
	}
	if err := sleeper.stop(t.Context(), 0); err != nil {
		t.Errorf("stopping it again: %v", err)
	}
}

func TestStopLeavesAReusedNumberAlone(t *testing.T) {
	sleeper := startSleeper(t)
	earlier := Process{PID: sleeper.PID, StartTime: sleeper.StartTime - 1}
	if earlier.Running() {
		t.Error("a process that started at another time counts as the recorded one")
	}
	if err := earlier.stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if !sleeper.Running() {
		t.Error("a process was ended that only has the number of the recorded one")
	}
}

func TestProcessWithoutNumberIsLeftAlone(t *testing.T) {
	// PID 0 would be the test's own process group.
	if err := (Process{}).stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestLaunchedProcessHasItsOwnSession(t *testing.T) {
	sleeper := startSleeper(t)
	fields, err := readStat(sleeper.PID)
	if err != nil {
		t.Fatal(err)
	}
	const session = 6 - 3
	if fields[session] != strconv.Itoa(sleeper.PID) {
		t.Errorf("session %s, want %d", fields[session], sleeper.PID)
	}
}

func TestEndedChildDoesNotRun(t *testing.T) {
	child := exec.CommandContext(t.Context(), "true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	process, err := identify(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	// Without a wait, it stays as a zombie.
	if err := poll(t.Context(), process.gone); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(process.PID))); err != nil {
		t.Errorf("the zombie is gone, nothing was tested: %v", err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}
