// Package metrics reads a page of metrics as a Prometheus does, through its own parser.
package metrics

import (
	"fmt"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Page is a page of metrics: its families by their names.
type Page map[string]*dto.MetricFamily

// Parse reads a page of metrics.
func Parse(text string) (Page, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	return families, nil
}

// Sum returns the sum of a metric's series with these labels, given as alternating names and values,
// and false when there is none. That of a histogram is its count.
func (p Page) Sum(name string, labels ...string) (sum float64, found bool) {
	for _, series := range p[name].GetMetric() {
		if labelled(series, labels) {
			sum, found = sum+valueOf(series), true
		}
	}
	return sum, found
}

func labelled(series *dto.Metric, labels []string) bool {
	has := map[string]string{}
	for _, label := range series.GetLabel() {
		has[label.GetName()] = label.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if has[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

func valueOf(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue() + float64(m.GetHistogram().GetSampleCount())
}
