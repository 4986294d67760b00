package measure_test

import (
	"math"
	"testing"

	"github.com/evictd/evictd/test/internal/measure"
)

func TestLeastSquares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x, y []float64
		want measure.Line
	}{
		{[]float64{0, 250, 500, 1000}, []float64{10, 60, 110, 210}, measure.Line{Slope: 0.2}},
		{[]float64{0, 1, 2}, []float64{0, 3, 0}, measure.Line{Residual: math.Sqrt2}},
	} {
		got := measure.LeastSquares(c.x, c.y)
		for name, pair := range map[string][2]float64{
			"slope": {got.Slope, c.want.Slope}, "residual": {got.Residual, c.want.Residual},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%v %v: %s %v, want %v", c.x, c.y, name, pair[0], pair[1])
			}
		}
	}
	if got := measure.LeastSquares([]float64{1, 1}, []float64{2, 3}); !math.IsNaN(got.Slope) {
		t.Errorf("points above each other have the slope %v", got.Slope)
	}
}
