package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/pkg/pressure"
)

func thresholds(t *testing.T, c *EvictdConfiguration) []pressure.Threshold {
	t.Helper()
	got, err := c.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func compareThresholds(t *testing.T, want, got []pressure.Threshold) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(pressure.Quantity{}), cmpopts.IgnoreFields(pressure.Threshold{}, "Written")); diff != "" {
		t.Errorf("thresholds (-want +got):\n%s", diff)
	}
}

func TestThresholdsOfDefaults(t *testing.T) {
	t.Parallel()
	compareThresholds(t, []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(float32(5) / 100), Hard: true},
		{Signal: pressure.AllocatableMemoryAvailable, Quantity: pressure.Fraction(float32(5) / 100), Hard: true},
		{Signal: pressure.NodeFSAvailable, Quantity: pressure.Fraction(float32(12) / 100), Hard: true},
		{Signal: pressure.NodeFSInodesFree, Quantity: pressure.Fraction(float32(6) / 100), Hard: true},
		{Signal: pressure.ImageFSAvailable, Quantity: pressure.Fraction(float32(16) / 100), Hard: true},
		{Signal: pressure.ImageFSInodesFree, Quantity: pressure.Fraction(float32(6) / 100), Hard: true},
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(float32(10) / 100), Grace: 30 * time.Second},
		{Signal: pressure.AllocatableMemoryAvailable, Quantity: pressure.Fraction(float32(10) / 100), Grace: 30 * time.Second},
	}, thresholds(t, Default()))
}

// TestThresholdOfStalls: what is available of a stall's window is the part in which no task
// stalled.
func TestThresholdOfStalls(t *testing.T) {
	t.Parallel()
	c := mustParse(t, head+"evictionHard: {}\nmemoryStall: {threshold: 10%}\n")
	if want := (MemoryStall{Type: StallFull, Threshold: "10%", Window: seconds(2)}); *c.MemoryStall != want {
		t.Errorf("completed to %+v, want %+v", *c.MemoryStall, want)
	}
	compareThresholds(t, []pressure.Threshold{
		{Signal: pressure.MemoryStall, Quantity: pressure.Fraction(1 - float32(10)/100), Hard: true},
	}, thresholds(t, c))
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	c := mustParse(t, head+`
evictionHard: {pid.available: "1000", memory.available: 500Mi, nodefs.available: 0%, imagefs.available: 100%, allocatableMemory.available: 200Mi}
evictionSoft: {memory.available: 10%, nodefs.available: 15%, imagefs.inodesFree: 0%}
evictionSoftGracePeriod: {memory.available: 0s, nodefs.available: 1m30s, imagefs.inodesFree: 1s}
evictionMinimumReclaim: {memory.available: 100Mi, pid.available: "0"}
`)
	reclaim := pressure.Absolute(100 << 20)
	compareThresholds(t, []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(500 << 20), Hard: true, MinReclaim: reclaim},
		// Soft with a grace period of 0 is hard, as in the kubelet.
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(float32(10) / 100), Hard: true, MinReclaim: reclaim},
		{Signal: pressure.AllocatableMemoryAvailable, Quantity: pressure.Absolute(200 << 20), Hard: true},
		{Signal: pressure.PIDAvailable, Quantity: pressure.Absolute(1000), Hard: true},
		{Signal: pressure.NodeFSAvailable, Quantity: pressure.Fraction(float32(15) / 100), Grace: 90 * time.Second},
	}, thresholds(t, c))
}

// Each threshold knows how the file writes it.
func TestThresholdsAsWritten(t *testing.T) {
	t.Parallel()
	c := mustParse(t, head+`
evictionHard: {memory.available: 1.5Gi, nodefs.available: 12.5%}
evictionSoft: {memory.available: 2Gi}
evictionSoftGracePeriod: {memory.available: 1m}
memoryStall: {threshold: 10%}
`)
	var got []string
	for _, threshold := range thresholds(t, c) {
		got = append(got, threshold.Signal.String()+" "+threshold.Written)
	}
	want := []string{"memory.available 1.5Gi", "memory.stall 10%", "nodefs.available 12.5%", "memory.available 2Gi"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

func TestThresholdsNone(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"evictionHard: {}",
		"evictionHard: {memory.available: 0%}\nevictionSoft: {memory.available: 100%}", // off needs no grace period
		"evictionHard: {memory.available: 100%}\nevictionMinimumReclaim: {memory.available: 5%}",
	} {
		if got := thresholds(t, mustParse(t, head+file+"\n")); len(got) != 0 {
			t.Errorf("%s: got %v, want none", file, got)
		}
	}
}

func TestThresholdsOfInvalid(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*EvictdConfiguration){
		"a hard threshold":  func(c *EvictdConfiguration) { c.EvictionHard["memory.available"] = "much" },
		"a soft threshold":  func(c *EvictdConfiguration) { c.EvictionSoft["memory.available"] = "100.0%" },
		"a signal":          func(c *EvictdConfiguration) { c.EvictionHard["cpu.available"] = "5%" },
		"no grace period":   func(c *EvictdConfiguration) { delete(c.EvictionSoftGracePeriod, "memory.available") },
		"a minimum reclaim": func(c *EvictdConfiguration) { c.EvictionMinimumReclaim["memory.available"] = "100%" },
	} {
		c := Default()
		spoil(c)
		if got, err := c.Thresholds(); err == nil || got != nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}
