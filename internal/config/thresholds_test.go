package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/pkg/pressure"
)

func TestThresholdsOfDefaults(t *testing.T) {
	t.Parallel()
	got := Default().Thresholds()
	want := []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(float32(5) / 100), Hard: true},
		{Signal: pressure.AllocatableMemoryAvailable, Quantity: pressure.Fraction(float32(5) / 100), Hard: true},
		{Signal: pressure.NodeFSAvailable, Quantity: pressure.Fraction(float32(12) / 100), Hard: true},
		{Signal: pressure.NodeFSInodesFree, Quantity: pressure.Fraction(float32(6) / 100), Hard: true},
		{Signal: pressure.ImageFSAvailable, Quantity: pressure.Fraction(float32(16) / 100), Hard: true},
		{Signal: pressure.ImageFSInodesFree, Quantity: pressure.Fraction(float32(6) / 100), Hard: true},
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(float32(10) / 100), Grace: 30 * time.Second},
		{Signal: pressure.AllocatableMemoryAvailable, Quantity: pressure.Fraction(float32(10) / 100), Grace: 30 * time.Second},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(pressure.Quantity{}), cmpopts.IgnoreFields(pressure.Threshold{}, "Written")); diff != "" {
		t.Errorf("thresholds (-want +got):\n%s", diff)
	}
}

func TestThresholdsOfInvalid(t *testing.T) {
	t.Parallel()
	c := Default()
	c.EvictionHard["memory.available"] = "much"
	if got := c.Thresholds(); got != nil {
		t.Errorf("got %v, want none", got)
	}
}
