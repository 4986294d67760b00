package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/image/internal/program"
)

// The test's own binary stands for evictd: it is a Go program for this platform.
func TestRun(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "evictd-oci")
	release := program.Release{Ref: "registry.example/evictd:v1", Version: "v1"}
	if err := run(output, release, []string{runtime.GOOS + "/" + runtime.GOARCH + "=" + self}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{output + "/index.json", output + "-" + runtime.GOOS + "-" + runtime.GOARCH + ".spdx.json"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{
		"linux/s390x=" + self: self + " is built for " + runtime.GOOS + "/" + runtime.GOARCH + ", not for linux/s390x",
		self:                  "write linux/amd64=PATH",
		"linux/amd64=" + text: "reading the build of " + text,
	} {
		err := run(filepath.Join(t.TempDir(), "x"), program.Release{Ref: "a:b", Version: "v1"}, []string{word})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want …%s…", word, err, want)
		}
	}
}
