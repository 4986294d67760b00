package plugin

import (
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics are an agent's page /metrics; docs/metrics.md lists them.
type metrics map[string]*dto.MetricFamily

// readMetrics reads the page.
func readMetrics(page io.Reader) (metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return nil, fmt.Errorf("reading its metrics: %w", err)
	}
	if families["evictd_build_info"] == nil {
		return nil, fmt.Errorf("reading its metrics: they are not evictd's")
	}
	return families, nil
}

// series is one figure of a metric.
type series struct {
	labels map[string]string
	value  float64
}

// all returns the figures of a metric; none where it is missing.
func (m metrics) all(name string) []series {
	var all []series
	for _, one := range m[name].GetMetric() {
		s := series{map[string]string{}, one.GetGauge().GetValue() + one.GetCounter().GetValue() + one.GetUntyped().GetValue()}
		for _, label := range one.GetLabel() {
			s.labels[label.GetName()] = label.GetValue()
		}
		all = append(all, s)
	}
	return all
}

// of returns the figure of a metric for a signal, or of one without labels where the signal is "";
// false where it is missing, which is unknown and never zero.
func (m metrics) of(name, signal string) (float64, bool) {
	for _, s := range m.all(name) {
		if s.labels["signal"] == signal {
			return s.value, true
		}
	}
	return 0, false
}
