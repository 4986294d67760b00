package cases

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// evictd is a process of the case's command. Its log is also the standard error of a command.
type evictd struct {
	*evictdtest.Process

	tb     testing.TB
	config string
	answer evictdtest.Log // standard output
	begun  time.Time
	ticks  float64
}

// start runs a case's command. A fault is one of the harness.
func start(tb testing.TB, c *Case, n *node, server string) *evictd {
	tb.Helper()
	dir := filepath.Dir(n.Root)
	e := &evictd{tb: tb, config: filepath.Join(dir, "evictd.yaml"), begun: time.Now()}
	n.must(e.configure(c.Configuration))
	n.must(cluster.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), &clientcmdapi.Cluster{Server: server}, &clientcmdapi.AuthInfo{Token: "token"}))
	address, err := cluster.FreeAddress(tb.Context())
	n.must(err)
	command := n.command(e.arguments(c, n.Root, address))
	command.Env = append(command.Env, "POD_NAMESPACE=evictd", "POD_UID=evictd-x", "HOST_IP=", "NODE_NAME=")
	command.Stdout = &e.answer
	e.Process, err = evictdtest.Run(command, address)
	n.must(err)
	tb.Cleanup(e.Kill)
	return e
}

// arguments are those of the command line. Where evictd is to answer with what only JSON has, it does.
func (e *evictd) arguments(c *Case, root, address string) []string {
	flags := make([]string, len(c.Flags))
	for i, flag := range c.Flags {
		flags[i] = strings.ReplaceAll(flag, "$HOST", root)
	}
	where := []string{"--config", e.config, "--node-name", nodeName, "--host-root", root, "--kubeconfig", filepath.Join(filepath.Dir(root), "kubeconfig")}
	switch c.Command {
	case commandValidate:
		return append([]string{"config", "validate", e.config}, flags...)
	case commandRun:
		where = append(where, "--http-bind-address", address, "--debug-bind-address", address)
		if !slices.Contains(c.Flags, "--state-dir") { // a start that knows nothing of the time before waits first
			dir, err := evictdtest.EmptyState(filepath.Dir(root), root)
			if err != nil {
				e.tb.Fatal(err)
			}
			where = append(where, "--state-dir", dir)
		}
	case commandDoctor:
		where = append(where, "-o", "json")
	case commandRank:
		where = nil
	}
	return append(append([]string{c.Command}, where...), flags...)
}

// configure writes the configuration, as an editor does.
func (e *evictd) configure(settings any) error {
	text, err := configured(settings)
	if err != nil {
		return fmt.Errorf("the case: %w", err)
	}
	if err = os.WriteFile(e.config+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(e.config+".new", e.config)
}

// seen adds what evictd said until now: for a case about the order, in its document too.
func (e *evictd) seen(ctx context.Context, s *Seen, c *Case, root string) {
	s.exit, s.ended = e.IsOver()
	names := strings.NewReplacer(root, "HOST", filepath.Dir(root)+"/", "")
	s.log, s.answer = names.Replace(e.Log.String()), names.Replace(e.answer.String())
	if len(c.Want.Metrics) > 0 {
		s.metrics = e.Metrics(ctx)
	}
	if c.Command == commandRun && c.Want.Ranks != nil && !s.ended {
		if code, page := e.Get(ctx, "/debug/status"); code == http.StatusOK {
			s.answer = page
		}
	}
}

// isOver reports whether evictd has ended.
func (e *evictd) isOver() bool {
	_, over := e.IsOver()
	return over
}

// isReady reports whether evictd could decide now, or whether it has said that it will not act.
func (e *evictd) isReady(ctx context.Context) bool {
	if e.Log.Has(`"msg":"evictd does not act"`) {
		return e.watchedSince(ctx, e.begun)
	}
	code, _ := e.Get(ctx, "/readyz")
	return e.isOver() || code == http.StatusOK
}

// Ticks is [evictdtest.Process.Ticks]. Where no tick comes any more, as evictd has ended, each look counts as
// one: what was seen is judged then.
func (e *evictd) Ticks(ctx context.Context) (ticks float64, err error) {
	if e.isOver() {
		e.ticks++
		return e.ticks, nil
	}
	if ticks, err = e.Process.Ticks(ctx); err == nil {
		e.ticks = ticks
	}
	return ticks, err
}

// watchedSince reports whether the API server has delivered something to evictd since then.
func (e *evictd) watchedSince(ctx context.Context, begun time.Time) bool {
	asked := time.Now()
	age, told := e.Metric(ctx, "evictd_watch_age_seconds")
	return e.isOver() || told && asked.Add(-time.Duration(age*float64(time.Second))).After(begun)
}

var _ eventually.Ticking = (*evictd)(nil)

// binary is evictd, of $EVICTD_BIN or built by TestMain.
var binary string
