// Package registrytest runs a registry for a test.
package registrytest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/test/cluster"
)

// Start builds the registry in a directory, which is that of test/image/registry, starts it on the
// loopback interface with an empty storage and returns its address. It ends with the test.
func Start(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "registry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".") //nolint:gosec // the test's own path
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the registry: %v\n%s", err, output)
	}
	address, config := FreeAddress(t), filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", dir, address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var log bytes.Buffer
	registry := exec.CommandContext(ctx, program, "serve", config) //nolint:gosec // built above
	registry.Stdout, registry.Stderr = &log, &log
	registry.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	if err := registry.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = registry.Wait()
		if t.Failed() {
			t.Logf("the registry:\n%s", log.String())
		}
	})
	waitFor(t, address)
	return address
}

// waitFor waits until the registry answers.
func waitFor(t *testing.T, address string) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, cluster.Patiently(2*time.Minute), true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v2/", http.NoBody)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if last = err; err == nil {
			_ = answer.Body.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("the registry does not answer: %v: %v", err, last)
	}
}

// FreeAddress returns an address of the loopback interface on which nothing listens.
func FreeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nothing was sent
	return listener.Addr().String()
}
