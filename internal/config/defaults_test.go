package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/testing/golden"
)

// emptySelectors takes an empty map or list inside a label selector for a missing
// one, which means the same and is what is written.
func emptySelectors() cmp.Option {
	return cmp.Transformer("selector", func(s metav1.LabelSelector) string { return metav1.FormatLabelSelector(&s) })
}

func TestDefaultsGolden(t *testing.T) {
	t.Parallel()
	written, err := Explain(Default())
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "defaults.yaml"), string(written), os.Getenv("UPDATE_GOLDEN") == "1", "UPDATE_GOLDEN=1")
	read, err := Parse(written)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), read); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestDefaultIsValid(t *testing.T) {
	t.Parallel()
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	// A new one at each call: a caller cannot change the next caller's defaults.
	Default().EvictionHard["memory.available"] = "90%"
	Default().Protect.Namespaces[0] = "default"
	if got := Default(); got.EvictionHard["memory.available"] != "5%" || got.Protect.Namespaces[0] != "kube-system" {
		t.Error("Default gives out shared maps")
	}
}

// TestDefaultsActBeforeTheKubelet holds the promise of the defaults against the
// kubelet's, DefaultEvictionHard in pkg/kubelet/eviction/defaults_linux.go.
func TestDefaultsActBeforeTheKubelet(t *testing.T) {
	t.Parallel()
	const node = 16 << 30
	for signal, kubelets := range map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%",
		"imagefs.available": "15%", "imagefs.inodesFree": "5%",
	} {
		ours, err := ParseThreshold(Default().EvictionHard[signal])
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := ParseThreshold(kubelets)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := ours.Of(node), theirs.Of(node); a <= b {
			t.Errorf("%s: %d is not ahead of the kubelet's %d", signal, a, b)
		}
	}
}

// eviction is the four maps that complete each other.
type eviction struct{ Hard, Soft, Grace, Reclaim map[string]string }

func TestCompleteThresholds(t *testing.T) {
	t.Parallel()
	d := Default()
	none := map[string]string{}
	own := map[string]string{"memory.available": "500Mi"}
	withoutMemory := map[string]string{
		"allocatableMemory.available": "5%",
		"nodefs.available":            "12%", "nodefs.inodesFree": "6%", "imagefs.available": "16%", "imagefs.inodesFree": "6%",
	}
	grace := map[string]string{"memory.available": "1m"}
	const graceLine = "\nevictionSoftGracePeriod: {memory.available: 1m}\n"
	for _, tc := range []struct {
		name, file string
		want       eviction
	}{
		{"nothing", "", eviction{d.EvictionHard, d.EvictionSoft, d.EvictionSoftGracePeriod, d.EvictionMinimumReclaim}},
		{"hard alone is all there is", "evictionHard: {memory.available: 500Mi}", eviction{own, none, none, none}},
		{"hard {} alone evicts no pod", "evictionHard: {}", eviction{none, none, none, none}},
		{"soft {} keeps the default hard", "evictionSoft: {}", eviction{d.EvictionHard, none, none, none}},
		{"reclaim {} alone", "evictionMinimumReclaim: {}", eviction{d.EvictionHard, d.EvictionSoft, d.EvictionSoftGracePeriod, none}},
		{
			"grace alone is for the default soft", "evictionSoftGracePeriod: {memory.available: 1m}",
			eviction{
				d.EvictionHard, d.EvictionSoft,
				map[string]string{"memory.available": "1m", "allocatableMemory.available": "30s"},
				d.EvictionMinimumReclaim,
			},
		},
		{
			"grace {} alone leaves the default soft its own", "evictionSoftGracePeriod: {}",
			eviction{d.EvictionHard, d.EvictionSoft, d.EvictionSoftGracePeriod, d.EvictionMinimumReclaim},
		},
		{
			"soft above the default hard", "evictionSoft: {memory.available: 8%}" + graceLine,
			eviction{d.EvictionHard, map[string]string{"memory.available": "8%"}, grace, none},
		},
		{
			"soft below the default hard", "evictionSoft: {memory.available: 3%}" + graceLine,
			eviction{withoutMemory, map[string]string{"memory.available": "3%"}, grace, none},
		},
		{
			"soft equal to the default hard", "evictionSoft: {memory.available: 5%}" + graceLine,
			eviction{withoutMemory, map[string]string{"memory.available": "5%"}, grace, none},
		},
		{
			"soft as an amount", "evictionSoft: {memory.available: 500Mi}" + graceLine,
			eviction{withoutMemory, own, grace, none},
		},
		{
			"soft switched off", "evictionSoft: {memory.available: 0%}" + graceLine,
			eviction{d.EvictionHard, map[string]string{"memory.available": "0%"}, grace, none},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, head+tc.file+"\n")
			got := eviction{c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompleteSampling(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]Sampling{
		"{minInterval: 2s}":                   {seconds(2), seconds(2)},
		"{minInterval: 100ms}":                {seconds(0.1), seconds(1)},
		"{maxInterval: 5ms}":                  {seconds(0.005), seconds(0.005)},
		"{maxInterval: 3s}":                   {seconds(0.01), seconds(3)},
		"{minInterval: 3ms, maxInterval: 4s}": {seconds(0.003), seconds(4)},
		"{}":                                  Default().Sampling,
	} {
		if diff := cmp.Diff(want, mustParse(t, head+"sampling: "+file+"\n").Sampling); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func seconds(n float64) Duration {
	return Duration{time.Duration(n * float64(time.Second))}
}

func TestValidateByHand(t *testing.T) {
	t.Parallel()
	var invalid *InvalidError
	err := (&EvictdConfiguration{}).Validate()
	if !errors.As(err, &invalid) {
		t.Fatalf("an empty configuration: got %v, want faults", err)
	}
	var got []string
	for _, fault := range invalid.Faults {
		got = append(got, fault.Field)
	}
	want := []string{
		"apiVersion", "kind", "memoryAvailable", "sampling.minInterval", "sampling.maxInterval", "disruptionBudgets",
		"protect.priorityAtLeast", "protect.withinRequests", "limits.evictionsPerMinute", "limits.perOwnerPerHour",
		"disk.source", "disk.workers", "disk.cpu",
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// A file that does not say whether evictd acts evicted pods.
func TestFaultFileWithoutDryRunActs(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{"": true, "dryRun:": true, "dryRun: true": true, "dryRun: false": false} {
		if c := mustParse(t, head+file+"\n"); c.DryRun != want {
			t.Errorf("%q: dry run %v, want %v", file, c.DryRun, want)
		}
	}
}
