// Package pages reads evictd's pages over HTTP, and its metrics as a Prometheus does, through its own
// parser.
package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Get returns the text and the status of a page. Any status is an answer, and no error.
func Get(ctx context.Context, client *http.Client, url string) (text string, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", 0, fmt.Errorf("requesting %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", 0, fmt.Errorf("requesting %s: %w", url, err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", 0, fmt.Errorf("reading %s: %w", url, err)
	}
	return string(body), response.StatusCode, nil
}

// Metrics is a page of metrics: its families by their names.
type Metrics map[string]*dto.MetricFamily

// ParseMetrics reads a page of metrics.
func ParseMetrics(text string) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	return families, nil
}

// Sum returns the sum of a metric's series with these labels, given as alternating names and values,
// and false when there is none. That of a histogram is its count.
func (m Metrics) Sum(name string, labels ...string) (sum float64, found bool) {
	for _, series := range m[name].GetMetric() {
		if labelled(series, labels) {
			sum, found = sum+valueOf(series), true
		}
	}
	return sum, found
}

// Ticks returns how often evictd has decided since it started. Without that figure it is an error.
func (m Metrics) Ticks() (float64, error) {
	ticks, told := m.Sum("evictd_tick_duration_seconds")
	if !told {
		return 0, errors.New("evictd's metrics count no ticks")
	}
	return ticks, nil
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
