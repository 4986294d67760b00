package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shape is how an amount changes with time.
type Shape string

// The shapes.
const (
	// ShapeConstant stays at From.
	ShapeConstant Shape = "constant"
	// ShapeLeak rises from From to To in the time Over, and stays there.
	ShapeLeak Shape = "leak"
	// ShapeStep goes from From to To at once.
	ShapeStep Shape = "step"
	// ShapeBurst is at To for the time Over, and at From before and after.
	ShapeBurst Shape = "burst"
	// ShapeSawtooth rises from From to To in the time Every, and begins again.
	ShapeSawtooth Shape = "sawtooth"
)

// Shapes returns all of them.
func Shapes() []Shape { return []Shape{ShapeConstant, ShapeLeak, ShapeStep, ShapeBurst, ShapeSawtooth} }

// Curve is an amount in bytes that changes with the age of what uses it. The zero value is 0 for ever.
type Curve struct {
	// Shape is how it changes; "" is constant.
	Shape Shape `json:"shape,omitempty"`
	// From is the amount in the beginning, To the one that it goes to.
	From resource.Quantity `json:"from,omitzero"`
	To   resource.Quantity `json:"to,omitzero"`
	// After is the age at which it begins to change.
	After metav1.Duration `json:"after,omitzero"`
	// Over is how long a leak rises, and how long a burst lasts.
	Over metav1.Duration `json:"over,omitzero"`
	// Every is the time from one burst to the next, 0 for a single one; and how long a tooth of a sawtooth takes.
	Every metav1.Duration `json:"every,omitzero"`
}

// At returns the amount at an age.
func (c *Curve) At(age time.Duration) int64 {
	from, to := c.From.Value(), c.To.Value()
	if age -= c.After.Duration; age < 0 {
		return from
	}
	over, every := c.Over.Duration, c.Every.Duration
	if every > 0 { // of a burst or a sawtooth
		age %= every
	}
	switch {
	case c.Shape == ShapeStep, c.Shape == ShapeBurst && age < over, c.Shape == ShapeLeak && age >= over:
		return to
	case c.Shape == ShapeLeak:
		return from + int64(float64(to-from)*float64(age)/float64(over))
	case c.Shape == ShapeSawtooth:
		return from + int64(float64(to-from)*float64(age)/float64(every))
	default:
		return from
	}
}
