package measure

import "math"

// Line is a straight line through points.
type Line struct {
	// Slope is what y gains for one more of x.
	Slope float64
	// Residual is the root of the mean squared distance of the points' y from the line, in the
	// unit of y.
	Residual float64
}

// LeastSquares returns the line with the smallest squared distances to the points. Both have the
// same number of values. Without two different x its slope is NaN.
func LeastSquares(x, y []float64) Line {
	n := float64(len(x))
	var sumX, sumY float64
	for i := range x {
		sumX += x[i]
		sumY += y[i]
	}
	meanX, meanY := sumX/n, sumY/n
	var above, below float64
	for i := range x {
		above += (x[i] - meanX) * (y[i] - meanY)
		below += (x[i] - meanX) * (x[i] - meanX)
	}
	line := Line{Slope: above / below}
	squares := 0.0
	for i := range x {
		off := y[i] - meanY - line.Slope*(x[i]-meanX)
		squares += off * off
	}
	line.Residual = math.Sqrt(squares / n)
	return line
}
