package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/pages"
)

// evictd is a process of the case's command.
type evictd struct {
	tb      testing.TB
	command *exec.Cmd
	config  string
	log     evictdtest.Log // and, of a command, its standard error
	answer  evictdtest.Log // standard output
	ended   chan struct{}  // closed at its end
	begun   time.Time
	ticks   float64
	// client has one connection, which is open before evictd may have no more file descriptors.
	client *http.Client
}

// start runs a case's command. A fault is one of the harness.
func start(tb testing.TB, c *Case, n *node, server string) *evictd {
	tb.Helper()
	dir := filepath.Dir(n.root)
	e := &evictd{tb: tb, config: filepath.Join(dir, "evictd.yaml"), ended: make(chan struct{})}
	e.client = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	tb.Cleanup(e.client.CloseIdleConnections)
	n.must(e.configure(c.Configuration))
	n.must(cluster.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), &clientcmdapi.Cluster{Server: server}, &clientcmdapi.AuthInfo{Token: "token"}))
	e.command = n.command(e.arguments(c, n.root))
	e.command.Env = append(e.command.Env, "POD_NAMESPACE=evictd", "POD_UID=evictd-x", "HOST_IP=", "NODE_NAME=")
	e.command.Stdout, e.command.Stderr = &e.answer, &e.log
	e.begun = time.Now()
	n.must(e.command.Start())
	go func() {
		defer close(e.ended)
		_ = e.command.Wait() // the exit code is judged
	}()
	tb.Cleanup(func() {
		_ = e.command.Process.Kill() // it may have ended
		<-e.ended
	})
	return e
}

// arguments are those of the command line. Where evictd is to answer with what only JSON has, it does.
func (e *evictd) arguments(c *Case, root string) []string {
	flags := make([]string, len(c.Flags))
	for i, flag := range c.Flags {
		flags[i] = strings.ReplaceAll(flag, "$HOST", root)
	}
	where := []string{"--config", e.config, "--node-name", nodeName, "--host-root", root, "--kubeconfig", filepath.Join(filepath.Dir(root), "kubeconfig")}
	switch c.Command {
	case commandValidate:
		return append([]string{"config", "validate", e.config}, flags...)
	case commandRun:
		where = append(where, "--http-bind-address", "127.0.0.1:0", "--debug-bind-address", "127.0.0.1:0") // of one port
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
	if s.ended = e.isOver(); s.ended {
		s.exit = e.command.ProcessState.ExitCode()
	}
	names := strings.NewReplacer(root, "HOST", filepath.Dir(root)+"/", "")
	s.log, s.answer = names.Replace(e.log.String()), names.Replace(e.answer.String())
	if c.Command == commandRun && c.Want.Ranks != nil && !s.ended {
		if page, code, err := e.get(ctx, "/debug/status"); err == nil && code == http.StatusOK {
			s.answer = page
		}
	}
}

func (e *evictd) isOver() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// isReady reports whether evictd could decide now, or whether it has said that it will not act.
func (e *evictd) isReady(ctx context.Context) bool {
	if strings.Contains(e.log.String(), `"msg":"evictd does not act"`) {
		return e.watchedSince(ctx, e.begun)
	}
	_, code, err := e.get(ctx, "/readyz")
	return e.isOver() || err == nil && code == http.StatusOK
}

// Ticks returns evictd_tick_duration_seconds_count. Where no tick comes any more, as evictd has ended, each look
// counts as one: what was seen is judged then.
func (e *evictd) Ticks(ctx context.Context) (float64, error) {
	if e.isOver() {
		e.ticks++
		return e.ticks, nil
	}
	read, err := e.metrics(ctx)
	if err != nil {
		return 0, err
	}
	ticks, err := read.Ticks()
	if err == nil {
		e.ticks = ticks
	}
	return ticks, err
}

// watchedSince reports whether the API server has delivered something to evictd since then.
func (e *evictd) watchedSince(ctx context.Context, begun time.Time) bool {
	if e.isOver() {
		return true
	}
	asked := time.Now()
	read, err := e.metrics(ctx)
	if err != nil {
		return false
	}
	age, told := read.Sum("evictd_watch_age_seconds")
	return told && asked.Add(-time.Duration(age*float64(time.Second))).After(begun)
}

// metrics returns evictd's metrics.
func (e *evictd) metrics(ctx context.Context) (pages.Metrics, error) {
	page, code, err := e.get(ctx, "/metrics")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("reading /metrics: status %d", code)
	}
	if err != nil {
		return nil, err
	}
	return pages.ParseMetrics(page)
}

// get returns one of evictd's pages, at the address that its log names.
func (e *evictd) get(ctx context.Context, page string) (text string, code int, err error) {
	var address string
	for line := range strings.Lines(e.log.String()) {
		var started struct {
			Address string `json:"address"`
		}
		if strings.Contains(line, `"msg":"started"`) && json.Unmarshal([]byte(line), &started) == nil {
			address = started.Address
		}
	}
	if address == "" {
		return "", 0, errors.New("evictd has not started yet")
	}
	return pages.Get(ctx, e.client, "http://"+address+page)
}

var _ eventually.Ticking = (*evictd)(nil)

// binary is evictd, of $EVICTD_BIN or built by TestMain.
var binary string
