package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func testRelease() release { return release{ref: "registry.example/evictd:v1.2.3", version: "v1.2.3"} }

// binaryOfThis is the test's own binary, which stands for evictd: it is a Go program for this platform.
func binaryOfThis(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return self
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	self, text := binaryOfThis(t), filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(text, []byte("no program"), 0o600))
	for word, want := range map[string]string{
		"linux/s390x=" + self: self + " is built for " + runtime.GOOS + "/" + runtime.GOARCH + ", not for linux/s390x",
		self:                  "write linux/amd64=PATH",
		"linux/amd64=" + text: "reading the build of " + text,
	} {
		err := writeLayout(filepath.Join(t.TempDir(), "x"), testRelease(), []string{word})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want …%s…", word, err, want)
		}
	}
}

func TestPushSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layout")
	must(t, writeLayout(dir, testRelease(), []string{runtime.GOOS + "/" + runtime.GOARCH + "=" + binaryOfThis(t)}))
	const closed = "127.0.0.1:1"
	for _, c := range []struct{ dir, ref, want string }{
		{dir, closed + "/evictd:v1", "pushing to " + closed + "/evictd:v1: the registry cannot be reached: dial tcp " + closed + ": connect: connection refused"},
		{t.TempDir(), "evictd", `pushing to "evictd": write it as registry/repository:tag`},
		{t.TempDir(), "registry.example/a:b", "reading the layout "},
		{t.TempDir(), "registry.example/A_/:b", `pushing to "registry.example/A_/:b"`},
	} {
		_, err := push(t.Context(), c.dir, c.ref)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %s…", c.ref, err, c.want)
		}
	}
}
