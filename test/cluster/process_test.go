package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// parentVariable makes this test program start a process, print its number and wait.
const parentVariable = "EVICTD_TEST_PARENT"

func TestMain(m *testing.M) {
	if log := os.Getenv(parentVariable); log != "" {
		if err := parent(log); err != nil {
			fmt.Println(err)
		}
		return
	}
	os.Exit(m.Run())
}

func parent(log string) error {
	started, _, err := sleeper(log)
	if err != nil {
		return err
	}
	fmt.Println(started.Pid)
	_, err = bufio.NewReader(os.Stdin).ReadByte() // to the end of the test
	return err
}

// sleeper starts a process on a thread of its own.
func sleeper(log string) (started *process, on *thread, err error) {
	if on, err = newThread(func() error { return nil }); err == nil {
		err = on.do(func() (err error) { started, err = launch("/bin/sleep", []string{"300"}, nil, log); return err })
	}
	return started, on, err
}

// startSleeper starts one for the test.
func startSleeper(t *testing.T) (*process, *thread) {
	t.Helper()
	started, on, err := sleeper(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	return started, on
}

func TestStopEndsTheProcess(t *testing.T) {
	sleeper, on := startSleeper(t)
	if !sleeper.running() {
		t.Fatal("the process does not run")
	}
	for range 2 {
		if err := sleeper.stop(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if sleeper.running() {
		t.Error("the process still runs")
	}
	if err := on.end(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestProcessEndsWithItsThread(t *testing.T) {
	sleeper, on := startSleeper(t)
	if err := on.end(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-sleeper.ended
}

func TestProcessThatNeverStartedIsStopped(t *testing.T) {
	if err := (*process)(nil).stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
}

// A program that is killed cannot stop its cluster.
func TestProcessesEndWithTheProgramThatIsKilled(t *testing.T) {
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), parentVariable+"="+filepath.Join(t.TempDir(), "log"))
	if _, err := program.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = program.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(line)
	}
	if err = program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait() // it was killed
	err = poll(t.Context(), func(context.Context) (bool, error) {
		stat, gone := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		return errors.Is(gone, os.ErrNotExist) || strings.Contains(string(stat), ") Z "), nil
	})
	if err != nil {
		t.Error(err)
	}
}
