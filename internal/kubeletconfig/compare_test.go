package kubeletconfig_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

func hard(signal pressure.Signal, line pressure.Quantity) pressure.Threshold {
	return pressure.Threshold{Signal: signal, Quantity: line, Hard: true}
}

func soft(signal pressure.Signal, line pressure.Quantity, grace time.Duration) pressure.Threshold {
	return pressure.Threshold{Signal: signal, Quantity: line, Grace: grace}
}

// calm is a node of 100 GiB of everything, half of it available, and 90 GiB for the pods.
func calm() *pressure.Sample {
	sample := &pressure.Sample{}
	for i := range sample.Observations {
		sample.Observations[i] = pressure.Observation{State: pressure.Known, Available: 50 * gi, Capacity: 100 * gi}
	}
	sample.Observations[pressure.AllocatableMemoryAvailable].Capacity = 90 * gi
	return sample
}

func kubelet(thresholds ...pressure.Threshold) *kubeletconfig.Configuration {
	return &kubeletconfig.Configuration{Files: []string{"/k.yaml"}, Thresholds: thresholds}
}

// finding is a finding without its sentence.
type finding struct {
	Signal pressure.Signal
	Maybe  bool
}

func first(signal pressure.Signal) []finding { return []finding{{signal, false}} }

func maybe(signal pressure.Signal) []finding { return []finding{{signal, true}} }

type thresholds = []pressure.Threshold

// comparison is two sides, and what is found between them.
type comparison struct {
	name         string
	ours, theirs thresholds
	change       func(allocatable *pressure.Observation) // of a calm node; nil is none
	want         []finding
	says         string // a part of the first one's sentence
}

func compare(t *testing.T, tests []comparison) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			node := calm()
			if test.change != nil {
				test.change(&node.Observations[pressure.AllocatableMemoryAvailable])
			}
			var got []finding
			all := kubeletconfig.Compare(test.ours, kubelet(test.theirs...), node)
			all = slices.DeleteFunc(all, func(f kubeletconfig.Finding) bool { return !f.First && !f.Maybe })
			for _, f := range all {
				got = append(got, finding{f.Signal, f.Maybe})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Fatalf("findings (-want +got):\n%s\n%+v", diff, all)
			}
			if len(got) > 0 && !strings.Contains(all[0].Detail+".", test.says) {
				t.Errorf("%q does not say %q", all[0].Detail, test.says)
			}
		})
	}
}

func TestWhichActsFirst(t *testing.T) {
	t.Parallel()
	const memory, nodefs = pressure.MemoryAvailable, pressure.NodeFSAvailable
	ten, five, one := pressure.Fraction(.1), pressure.Fraction(.05), pressure.Absolute(gi)
	fives, late := thresholds{hard(nodefs, five)}, thresholds{hard(nodefs, one), soft(nodefs, ten, time.Minute)}
	compare(t, []comparison{
		{"the defaults", thresholds{hard(memory, five)}, thresholds{hard(memory, pressure.Absolute(100*mi))}, nil, nil, ""},
		{"a percentage above an amount", thresholds{hard(nodefs, one)}, fives, nil, first(nodefs), ""},
		{
			"a finding says both values and what to write",
			thresholds{hard(nodefs, pressure.Absolute(gi))},
			fives, nil, first(nodefs),
			"the kubelet evicts below 5.0Gi (hard), by /k.yaml, without asking budgets and with one second of grace; " +
				"evictd below 1.0Gi (hard); write a threshold above 5.0Gi in evictd's configuration, or a lower one in the kubelet's.",
		},
		{"an amount above a percentage", thresholds{hard(nodefs, pressure.Absolute(6*gi))}, fives, nil, nil, ""},
		{"equal lines", fives, fives, nil, first(nodefs), ""},
		{"evictd leaves the signal to the kubelet", nil, fives, nil, nil, ""},
		{"the kubelet has no threshold", fives, nil, nil, nil, ""},
		{"a soft one of evictd's is above and may come too late", thresholds{soft(nodefs, ten, time.Minute)}, fives, nil, maybe(nodefs), ""},
		{"a soft one of evictd's is below as well", thresholds{soft(nodefs, one, time.Minute)}, fives, nil, first(nodefs), ""},
		{"a hard one of evictd's is below, whatever its soft one is", late, fives, nil, first(nodefs), ""},
		{"a soft one of the kubelet's waits longer", late, thresholds{soft(nodefs, five, time.Minute)}, nil, nil, ""},
		{"a soft one of the kubelet's waits less", late, thresholds{soft(nodefs, five, 59*time.Second)}, nil, first(nodefs), ""},
		{"a soft one of the kubelet's is above everything", fives, thresholds{soft(nodefs, ten, time.Hour)}, nil, first(nodefs), ""},
		{
			"once per signal, the hard one first",
			thresholds{hard(nodefs, one), hard(memory, one)},
			thresholds{soft(nodefs, ten, time.Hour), hard(nodefs, five), hard(memory, five)},
			nil, append(first(memory), first(nodefs)...), "",
		},
	})
}

// The kubelet copies its hard threshold of memory.available for the limit of the pods' cgroup. That evictd has none
// there is found.
func TestTheCopyForTheLimitOfThePodsCgroup(t *testing.T) {
	t.Parallel()
	const signal = pressure.AllocatableMemoryAvailable
	theirs := thresholds{hard(pressure.MemoryAvailable, pressure.Absolute(100*mi)), hard(signal, pressure.Absolute(100*mi))}
	compare(t, []comparison{
		{"evictd has none", nil, theirs, nil, first(signal), "evictd has no threshold there; write allocatableMemory.available: 200Mi"},
		{"the cgroup has no limit", nil, theirs, func(seen *pressure.Observation) { seen.State = pressure.Absent }, nil, ""},
		{"the limit is all of the memory", nil, theirs, func(seen *pressure.Observation) { seen.Capacity = 100 * gi }, nil, ""},
		{"the cgroup cannot be read", thresholds{hard(signal, pressure.Absolute(50*mi))}, theirs, func(seen *pressure.Observation) { seen.State = pressure.Unknown }, nil, ""},
		{"evictd has one, and the cgroup no limit", thresholds{hard(signal, pressure.Absolute(50*mi))}, theirs, func(seen *pressure.Observation) { seen.State = pressure.Absent }, nil, ""},
		{"evictd's is above", thresholds{hard(signal, pressure.Fraction(.05))}, theirs, nil, nil, ""},
		{"evictd's is below", thresholds{hard(signal, pressure.Absolute(50*mi))}, theirs, nil, first(signal), "evictd below 50.0Mi (hard); write a threshold above 100.0Mi"},
	})
}

// TestKubeletMemoryIsComparedWithTheKubeletsMemory: a threshold of kubeletMemory.available is meant
// to lie above the kubelet's of memory.available. It makes up for one of memory.available that
// comes too late.
func TestKubeletMemoryIsComparedWithTheKubeletsMemory(t *testing.T) {
	t.Parallel()
	const memory, onKubelets = pressure.MemoryAvailable, pressure.KubeletMemoryAvailable
	theirs := thresholds{hard(memory, pressure.Absolute(gi))}
	above, at, late := pressure.Absolute(gi+1), pressure.Absolute(gi), pressure.Absolute(gi-1)
	both := append(first(memory), first(onKubelets)...)
	compare(t, []comparison{
		{"above", thresholds{hard(onKubelets, above)}, theirs, nil, nil, ""},
		{"equal", thresholds{hard(onKubelets, at)}, theirs, nil, first(onKubelets), ""},
		{"below is too late", thresholds{hard(onKubelets, late)}, theirs, nil, first(onKubelets), ""},
		{"above and soft", thresholds{soft(onKubelets, above, time.Minute)}, theirs, nil, maybe(onKubelets), ""},
		{"above, beside a late one of memory.available", thresholds{hard(memory, late), hard(onKubelets, above)}, theirs, nil, nil, ""},
		{"below, beside a late one of memory.available", thresholds{hard(memory, late), hard(onKubelets, late)}, theirs, nil, both, ""},
		{
			"below, beside an early one of memory.available",
			thresholds{hard(memory, pressure.Fraction(.1)), hard(onKubelets, late)},
			theirs,
			nil, first(onKubelets), "",
		},
	})
}
