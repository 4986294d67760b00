package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]size{
		"0": 0, "4096": 4096, "1k": 1000, "2Ki": 2048, "200Mi": 200 << 20, "3M": 3000000, "1Gi": 1 << 30, "1T": 1e12, "2Ti": 2 << 40,
	} {
		var got size
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: got %d, error %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Mi", "-1", "1.5Gi", "1mi", "9000000000Gi", "1 Gi"} {
		var got size
		if err := got.Set(text); err == nil {
			t.Errorf("%q: accepted as %d", text, got)
		}
	}
}

func TestFillLeavesNoPageAlike(t *testing.T) {
	chunk := make([]byte, 3*pageSize)
	fill(chunk, seed())
	first, second, third := chunk[:pageSize], chunk[pageSize:2*pageSize], chunk[2*pageSize:]
	if bytes.Equal(first, second) || bytes.Equal(second, third) || bytes.Count(chunk, []byte{0}) > len(chunk)/64 {
		t.Error("the pages are alike, or empty")
	}
}

func TestWriteFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := writeFiles(path, 5<<20+1, 2); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{path + "-0": 5 << 19, path + "-1": 5<<19 + 1} {
		if info, err := os.Stat(name); err != nil || info.Size() != want {
			t.Errorf("%s: %v, error %v, want %d bytes", name, info, err, want)
		}
	}
	if err := writeFiles(path, 0, 1); err != nil {
		t.Error(err)
	}
}

// The file uses no blocks, and every byte of it is read each time.
func TestKeepCached(t *testing.T) {
	path, enough := filepath.Join(t.TempDir(), "cached"), errors.New("enough")
	if err := keepCached(path, 5<<20+1, func() error { return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	system, is := info.Sys().(*syscall.Stat_t)
	if info.Size() != 5<<20+1 || !is || system.Blocks > 0 {
		t.Errorf("the file has %d bytes in %d blocks", info.Size(), system.Blocks)
	}
}

func TestPrintLines(t *testing.T) {
	for _, total := range []size{1, 8 << 10, 20<<10 + 1} {
		var out bytes.Buffer
		if err := printLines(&out, total, 0); err != nil {
			t.Fatal(err)
		}
		if size(out.Len()) != total || !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
			t.Errorf("%d bytes, want %d that end a line", out.Len(), total)
		}
	}
}

// The file has its blocks, and no data was written into them.
func TestGrowthAllocatesAtItsRate(t *testing.T) {
	enough := errors.New("enough")
	path := filepath.Join(t.TempDir(), "grown")
	begin, blocks := time.Now(), int64(0)
	err := growth{path: path, total: 12 << 20, rate: 40 << 20}.run(func() error {
		var system syscall.Stat_t
		if err := syscall.Stat(path, &system); err != nil {
			return err
		}
		blocks = system.Blocks
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if elapsed := time.Since(begin); blocks<<9 < 12<<20 || elapsed < 190*time.Millisecond {
		t.Errorf("%d bytes are allocated after %s", blocks<<9, elapsed)
	}
}

func TestLifeAndHook(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var out bytes.Buffer
	if code := command([]string{"--prestop-sleep=1ms", "--log-file=" + log}, &out, &out); code != 0 {
		t.Fatalf("hook: code %d: %s", code, out.String())
	}
	ended := make(chan int)
	go func() {
		ended <- command([]string{"--memory=2Mi", "--memory-first=1Mi", "--term-delay=10ms", "--log-file=" + log}, &bytes.Buffer{}, &bytes.Buffer{})
	}()
	waitFor(t, log, " memory\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("code %d", code)
	}
	var words []string
	for line := range strings.Lines(waitFor(t, log, " exit\n")) {
		moment, word, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := time.Parse(time.RFC3339Nano, moment); err != nil {
			t.Error(err)
		}
		words = append(words, word)
	}
	if got := strings.Join(words, " "); got != "prestop-start prestop-end start first memory term exit" {
		t.Errorf("the log says: %s", got)
	}
}

func waitFor(t *testing.T, path, text string) string {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if strings.Contains(string(content), text) {
			return string(content)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in %s", text, content)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, arguments := range [][]string{{"--memory=lots"}, {"--files=0"}, {"argument"}} {
		var complaint bytes.Buffer
		if code := command(arguments, &complaint, &complaint); code != exitUsage || complaint.Len() == 0 {
			t.Errorf("%v: code %d, complaint %q", arguments, code, complaint.String())
		}
	}
}

func TestStartFileIsWaitedFor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "go")
	synctest.Test(t, func(t *testing.T) {
		came := make(chan error, 1)
		go func() { came <- awaitFile(name) }()
		synctest.Wait() // it sleeps
		if len(came) > 0 {
			t.Fatalf("did not wait: %v", <-came)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := <-came; err != nil {
			t.Error(err)
		}
	})
	if err := awaitFile(""); err != nil {
		t.Error(err)
	}
	if err := awaitFile(filepath.Join(name, "below")); err == nil {
		t.Error("a path through a file is no file that may still come")
	}
}

func TestTwoServeOneAddress(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 2)
	for range cap(failed) {
		go func() { failed <- serve(address) }()
	}
	begin := time.Now()
	for answered := 0; answered < 20; {
		response, err := http.Get("http://" + address)
		if err == nil && response.StatusCode == http.StatusOK && response.Body.Close() == nil {
			answered++
		} else if time.Since(begin) > 2*time.Minute {
			t.Fatalf("no answer: %v", err)
		}
	}
	select {
	case err := <-failed:
		t.Errorf("one of them did not serve: %v", err)
	default:
	}
}

func TestBeatWritesTimes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "beats")
	go func() { _ = beat(file) }()
	var text []byte
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		text, _ = os.ReadFile(file) // not there at first
		return len(strings.Fields(string(text))) >= 3, nil
	})
	if err != nil {
		t.Fatalf("%v: the file: %q", err, text)
	}
}
