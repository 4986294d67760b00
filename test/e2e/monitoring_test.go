//go:build e2e_all

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/node"
	"github.com/evictd/evictd/test/internal/pages"
)

// A real Prometheus scrapes evictd with the labels of the chart's PodMonitor. The shipped alerts are silent but for the
// one of the dry run, each fires in its case, and every expression of the dashboards has an answer. When the alerts
// fire, and in which cases, is in test/chart/testdata/alerts_test.yaml: here none waits.
func TestPrometheusOnARealNode(t *testing.T) {
	s := newScene(t, true)
	p := startPrometheus(s)
	p.fires("EvictdDryRunForgotten")

	s.threshold(node.PodMemory, headroom, false, "")
	p.fires()
	for title, expression := range dashboards(s) {
		if _, err := p.query(t.Context(), expression); err != nil {
			t.Errorf("%s: %v", title, err)
		}
	}

	before, err := live.Kubectl(t.Context(), "-n", node.Namespace, "get", "configmap", "evictd", "-o", `jsonpath={.data.evictd\.yaml}`)
	s.must(err)
	s.must(live.Edit(t.Context(), before+"\nevictionHardd: {}\n"))
	p.fires("EvictdConfigurationRefused")
	s.must(live.Edit(t.Context(), before))
	p.fires()

	w := node.Workload{Name: "kept", UsesMiB: 50, AsksMiB: 10}
	s.deploy(w)
	line, err := live.LineBelow(t.Context(), node.PodMemory, 1)
	s.must(err)
	live.ForgetPolicy()
	s.configure(node.Policy{Signal: node.PodMemory, Line: line, Extra: "protect: {namespaces: [" + s.namespace + "]}"})
	p.fires("EvictdCannotHelp")
	s.threshold(node.PodMemory, headroom, false, "")

	_, err = live.Kubectl(t.Context(), "-n", node.Namespace, "patch", "ds/evictd", "--patch", `{"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}}`)
	s.must(err)
	eventually.Undo(s, func(ctx context.Context) {
		_, err := live.Kubectl(ctx, "-n", node.Namespace, "rollout", "undo", "ds/evictd")
		s.must(err)
		s.must(live.Deploy(ctx))
	})
	p.fires("EvictdDown")
}

// prometheus is a running one.
type prometheus struct {
	*scene

	address string
}

// startPrometheus starts the pinned one with the shipped alerts. It ends with the test.
func startPrometheus(s *scene) *prometheus {
	s.Helper()
	dir := s.TempDir()
	alerts, err := os.ReadFile(monitoring("alerts.yaml"))
	s.must(err)
	now := regexp.MustCompile(`(?m)^( +)for: .*$`).ReplaceAll(alerts, []byte("${1}for: 0s"))
	now = bytes.ReplaceAll(now, []byte("[5m]"), []byte("[10s]")) // a counter that stands still is silent as soon
	s.must(os.WriteFile(filepath.Join(dir, "alerts.yaml"), now, 0o600))
	s.must(os.WriteFile(filepath.Join(dir, "prometheus.yaml"), fmt.Appendf(nil, `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [alerts.yaml]
scrape_configs:
- job_name: evictd
  static_configs: [{targets: ["127.0.0.1:9464"], labels: {instance: %s}}]
`, live.Name()), 0o600))
	p := &prometheus{scene: s, address: "127.0.0.1:19090"}
	command := exec.CommandContext(context.WithoutCancel(s.Context()), filepath.Join(live.Files.ClusterBin, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	s.must(command.Start())
	eventually.Undo(s, func(context.Context) {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		if s.Failed() {
			s.Logf("Prometheus:\n%s", log.String())
		}
	})
	s.until("Prometheus answers", func(ctx context.Context) bool {
		_, err := p.query(ctx, "up")
		return err == nil
	})
	return p
}

// monitoring returns the path of a file below deploy/monitoring.
func monitoring(name string) string {
	return filepath.Join(filepath.Dir(live.Files.Manifest), "monitoring", name)
}

// fires waits until these alerts fire and no others.
func (p *prometheus) fires(want ...string) {
	p.Helper()
	p.until(fmt.Sprintf("the alerts %q fire and no others", want), func(ctx context.Context) bool {
		firing, err := p.query(ctx, `ALERTS{alertstate="firing"}`)
		var names []string
		for _, labels := range firing {
			names = append(names, labels["alertname"])
		}
		slices.Sort(names)
		return err == nil && slices.Equal(slices.Compact(names), want)
	})
}

// query returns the labels of each series of an expression.
func (p *prometheus) query(ctx context.Context, expression string) ([]map[string]string, error) {
	text, _, err := pages.Get(ctx, http.DefaultClient, "http://"+p.address+"/api/v1/query?query="+url.QueryEscape(expression))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, fmt.Errorf("reading the answer %q: %w", text, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", expression, answer.Error)
	}
	var series []map[string]string
	for _, r := range answer.Data.Result {
		series = append(series, r.Metric)
	}
	return series, nil
}

// dashboards returns the expressions of the dashboards by panel, as Grafana would send them for this node.
func dashboards(s *scene) map[string]string {
	s.Helper()
	variables := strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$cluster", ".*", "$node", live.Name())
	all := map[string]string{}
	for _, name := range []string{"fleet", "node"} {
		var board struct {
			Panels []struct {
				Title   string `json:"title"`
				Targets []struct {
					Expr string `json:"expr"`
				} `json:"targets"`
			} `json:"panels"`
		}
		text, err := os.ReadFile(monitoring(name + ".json"))
		s.must(err)
		s.must(json.Unmarshal(text, &board))
		for _, panel := range board.Panels {
			for i, target := range panel.Targets {
				all[fmt.Sprintf("%s: %s %d", name, panel.Title, i)] = variables.Replace(target.Expr)
			}
		}
	}
	return all
}
