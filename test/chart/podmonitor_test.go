package chart

import (
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// The PodMonitor has the fields of the Prometheus Operator's own type, and selects the metrics
// port of evictd's pods.
func TestPodMonitorIsOne(t *testing.T) {
	t.Parallel()
	for _, r := range Rows(t) {
		if !strings.HasPrefix(r.Value, "podMonitor.") {
			continue
		}
		all := Render(t, Namespace, r.Given+"\n"+r.Set).Objects
		text, err := yaml.Marshal(all["PodMonitor evictd/evictd"])
		must(t, err)
		var monitor monitoringv1.PodMonitor
		if err := yaml.UnmarshalStrict(text, &monitor); err != nil {
			t.Errorf("%s: %v", r.Set, err)
			continue
		}
		pod := fields(all["DaemonSet evictd/evictd"])
		endpoint := monitor.Spec.PodMetricsEndpoints[0]
		if label := `"` + monitor.Spec.Selector.MatchLabels["app.kubernetes.io/name"] + `"`; endpoint.Port == nil ||
			label != pod["spec.template.metadata.labels.app.kubernetes.io/name"] || pod["spec.template.spec.containers[evictd].ports["+*endpoint.Port+"].name"] == "" {
			t.Errorf("%s: the PodMonitor selects other pods or another port: %s", r.Set, text)
		}
	}
}
