package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
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
