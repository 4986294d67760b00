package api

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// command runs evictd's commands on a node's files.
type command struct {
	t      testing.TB
	host   *evictdtest.Host
	config string
}

func newCommand(tb testing.TB, settings string) *command {
	tb.Helper()
	c := &command{t: tb, host: evictdtest.NewHost(tb), config: filepath.Join(tb.TempDir(), "evictd.yaml")}
	text := "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n" + settings
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return c
}

// onNode runs a command for a node, with these credentials, and returns what it printed. It must succeed,
// unless it is one that reports findings by its exit code.
func (c *command) onNode(ctx context.Context, name, node, kubeconfig string, args ...string) (stdout, stderr string) {
	c.t.Helper()
	return c.call(ctx, append([]string{
		name, "--node-name", node, "--kubeconfig", kubeconfig, "--config", c.config, "--host-root", c.host.Root,
	}, args...)...)
}

func (c *command) call(ctx context.Context, args ...string) (stdout, stderr string) {
	c.t.Helper()
	var out, errs bytes.Buffer
	run := exec.CommandContext(ctx, evictdtest.Binary(c.t), args...)
	run.Stdout, run.Stderr, run.Env = &out, &errs, append(os.Environ(), "POD_NAMESPACE="+evictdtest.AccountName)
	if err := run.Run(); err != nil && args[0] != "doctor" {
		c.t.Fatalf("evictd %q: %v: %s", args, err, errs.String())
	}
	return out.String(), errs.String()
}
