package measure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

func TestQuantileMakesNothingUp(t *testing.T) {
	var twenty, hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
		if i < 20 {
			twenty = append(twenty, time.Duration(i+1))
		}
	}
	for _, c := range []struct {
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{nil, 0.5, 0},
		{[]time.Duration{7}, 0.99, 7},
		{twenty, 0.5, 10},
		{twenty, 0.99, 20},
		{twenty, 1, 20},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 0, 1},
	} {
		if got := measure.Quantile(c.values, c.q); got != c.want {
			t.Errorf("the quantile %v of %d values is %d, want %d", c.q, len(c.values), got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		if got := measure.Median(measure.Each(c.values, func(v *float64) float64 { return *v })); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestTableIsMarkdown(t *testing.T) {
	var out strings.Builder
	if err := measure.Table(&out, []string{"a", "long header"}, [][]string{{"long cell", "b"}}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := strings.Count(line, "|"); n != 3 || !strings.HasPrefix(line, "| ") || !strings.HasSuffix(line, " |\n") {
			t.Errorf("%q is no line of a table of two columns", line)
		}
	}
}
