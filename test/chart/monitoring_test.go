package chart

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	monitoringDir = deployDir + "/monitoring"
	runbookURL    = "https://github.com/evictd/evictd/blob/main/"
)

// rule returns the PrometheusRule of the chart.
func rule(t *testing.T) (of monitoringv1.PrometheusRule, text string) {
	t.Helper()
	made, err := yaml.Marshal(Render(t, Namespace, "prometheusRule: {enabled: true}").Objects["PrometheusRule evictd/evictd"])
	must(t, err)
	must(t, yaml.UnmarshalStrict(made, &of))
	return of, string(made)
}

// The PrometheusRule for kubectl is that of the chart. It is written by
// go test -run TestPrometheusRule -update.
func TestPrometheusRule(t *testing.T) {
	t.Parallel()
	const file = monitoringDir + "/prometheusrule.yaml"
	_, text := rule(t)
	want := "# Made from alerts.yaml by the chart: make generate.\n" + text
	if *update {
		must(t, os.WriteFile(file, []byte(want), 0o600))
		return
	}
	if read(t, file) != want {
		t.Errorf("%s is not that of the chart: run make generate", file)
	}
}

// Each alert has a severity, two sentences and a link to a heading that is there.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	of, _ := rule(t)
	names := map[string]bool{}
	for _, group := range of.Spec.Groups {
		for _, alert := range group.Rules {
			if names[alert.Alert] {
				t.Errorf("%s is there twice", alert.Alert)
			}
			names[alert.Alert] = true
			if severity := alert.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, severity) {
				t.Errorf("%s has the severity %q", alert.Alert, severity)
			}
			for _, name := range []string{"summary", "description"} {
				if text := alert.Annotations[name]; !strings.HasSuffix(text, ".") {
					t.Errorf("the %s of %s is no sentence: %q", name, alert.Alert, text)
				}
			}
			url := alert.Annotations["runbook_url"]
			page, anchor, _ := strings.Cut(strings.TrimPrefix(url, runbookURL), "#")
			if !strings.HasPrefix(url, runbookURL) || !slices.Contains(anchors(read(t, "../../"+page)), anchor) {
				t.Errorf("%s links to %s, which is no heading", alert.Alert, url)
			}
			if !strings.Contains(read(t, "../../docs/runbook.md"), "`"+alert.Alert+"`") {
				t.Errorf("docs/runbook.md lacks %s", alert.Alert)
			}
		}
	}
	if len(names) < 10 || len(names) > 12 {
		t.Errorf("%d alerts", len(names))
	}
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) []string {
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}

// Every expression of the alerts and the dashboards is one for Prometheus' own parser, and names metrics and labels
// that docs/metrics.md has, which is made from evictd's own registry.
func TestExpressionsNameMetricsThatAreThere(t *testing.T) {
	t.Parallel()
	known := metrics(t)
	expressions := map[string]string{}
	of, _ := rule(t)
	for _, group := range of.Spec.Groups {
		for _, alert := range group.Rules {
			expressions[alert.Alert] = alert.Expr.String()
		}
	}
	for _, name := range []string{"fleet", "node"} {
		for title, expression := range dashboard(t, name) {
			expressions[name+": "+title] = expression
		}
	}
	if len(expressions) < 50 {
		t.Errorf("%d expressions", len(expressions))
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	for where, expression := range expressions {
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(expression))
		if err != nil {
			t.Errorf("%s: %v in %s", where, err, expression)
			continue
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				labels, is := known[strings.TrimSuffix(selector.Name, "_bucket")]
				if !is {
					t.Errorf("%s: evictd has no metric %s", where, selector.Name)
				}
				for _, matcher := range selector.LabelMatchers {
					if !slices.Contains(append(labels, "__name__", "cluster", "instance", "job"), matcher.Name) {
						t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
					}
				}
			}
			return nil
		})
	}
}

// metrics returns the labels of each metric in docs/metrics.md, and of those that Prometheus and its client make.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"up": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}
	for _, row := range regexp.MustCompile("(?m)^\\| (`evictd_[^|]*) \\| [^|]* \\| ([^|]*) \\|").FindAllStringSubmatch(read(t, "../../docs/metrics.md"), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			labels := []string{}
			for label := range strings.SplitSeq(row[2], ", ") {
				labels = append(labels, strings.Trim(label, "` "))
			}
			all[strings.Trim(name, "` ")] = labels
		}
	}
	return all
}

// dashboard returns the expressions of a dashboard by panel, and holds it against what Grafana expects.
func dashboard(t *testing.T, name string) map[string]string {
	t.Helper()
	type source struct {
		UID string `json:"uid"`
	}
	var d struct {
		UID        string `json:"uid"`
		Templating struct {
			List []struct {
				Name string `json:"name"`
			} `json:"list"`
		} `json:"templating"`
		Panels []struct {
			ID          int    `json:"id"`
			Type        string `json:"type"`
			Title       string `json:"title"`
			Description string `json:"description"`
			Datasource  source `json:"datasource"`
			Targets     []struct {
				RefID string `json:"refId"`
				Expr  string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	text := read(t, monitoringDir+"/"+name+".json")
	must(t, json.Unmarshal([]byte(text), &d))
	variables := []string{}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if want := []string{"datasource", "cluster", "node"}; d.UID != "evictd-"+name || !slices.Equal(variables, want) {
		t.Errorf("%s has the uid %s and the variables %q", name, d.UID, variables)
	}
	expressions, ids := map[string]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: two panels have the ID %d", name, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.Datasource.UID != "${datasource}" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("%s: panel %q lacks its data source, its description or its expressions", name, p.Title)
		}
		for _, target := range p.Targets {
			expressions[p.Title+" "+target.RefID] = target.Expr
		}
	}
	return expressions
}
