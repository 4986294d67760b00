package measure_test

import (
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
