package oci

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// What is pushed to a registry has the digest of the layout, and comes back whole.
func TestPushAndPull(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layout")
	want, err := WriteLayout(dir, testRelease().Ref, pack(t))
	if err != nil {
		t.Fatal(err)
	}
	address := startRegistry(t)
	pushed, err := Push(t.Context(), dir, address+"/some/evictd:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if pushed.String() != address+"/some/evictd@"+want.String() {
		t.Errorf("pushed %s, want the digest %s", pushed, want)
	}
	tag, err := name.NewTag(address + "/some/evictd:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []name.Reference{pushed, tag} {
		index, err := remote.Index(ref, remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := index.Digest(); err != nil || got != want {
			t.Errorf("pulled %s by %s, want %s: %v", got, ref, want, err)
		}
		if err := validate.Index(index); err != nil { // reads each layer
			t.Error(err)
		}
	}
}

func TestPushToUnreachableRegistry(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := WriteLayout(dir, testRelease().Ref, pack(t)); err != nil {
		t.Fatal(err)
	}
	closed := freeAddress(t)
	_, err := Push(t.Context(), dir, closed+"/evictd:v1")
	want := fmt.Sprintf("pushing to %s/evictd:v1: the registry cannot be reached: dial tcp %s: connect: connection refused", closed, closed)
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

func TestPushWithoutRegistryOrLayout(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"evictd":                 `pushing to "evictd": write it as registry/repository:tag`,
		"registry.example/a:b":   "reading the layout ",
		"registry.example/A_/:b": `pushing to "registry.example/A_/:b"`,
	} {
		_, err := Push(t.Context(), t.TempDir(), ref)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %s…", ref, err, want)
		}
	}
}

// startRegistry builds the registry of test/image/registry, starts it on the loopback interface
// and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "registry")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir, build.Env = "../../registry", append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the registry: %v\n%s", err, output)
	}
	address, config := freeAddress(t), filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: warn}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", dir, address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var log bytes.Buffer
	registry := exec.CommandContext(ctx, program, "serve", config)
	registry.Stdout, registry.Stderr = &log, &log
	registry.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	if err := registry.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = registry.Wait()
		if t.Failed() {
			t.Logf("the registry:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get("http://" + address + "/v2/")
		if err == nil {
			_ = answer.Body.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("the registry does not answer: %v", err)
		}
	}
}

// freeAddress returns an address of the loopback interface on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
