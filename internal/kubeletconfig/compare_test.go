package kubeletconfig_test

import (
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

// calm is a node of 100 GiB of everything, half of it available by either measure.
func calm() *kubeletconfig.Node {
	sample := &pressure.Sample{}
	for i := range sample.Observations {
		sample.Observations[i] = pressure.Observation{State: pressure.Known, Available: 50 * gi, Capacity: 100 * gi}
	}
	return &kubeletconfig.Node{
		Sample: sample, Definition: pressure.WorkingSet, DedicatedImageFS: true,
		KubeletMemory:      pressure.Observation{State: pressure.Known, Available: 50 * gi, Capacity: 100 * gi},
		KubeletAllocatable: pressure.Observation{State: pressure.Known, Available: 50 * gi, Capacity: 90 * gi},
	}
}

func kubelet(thresholds ...pressure.Threshold) *kubeletconfig.Configuration {
	return &kubeletconfig.Configuration{Files: []string{"/k.yaml"}, Thresholds: thresholds, ImageGCHighPercent: 100}
}

// finding is a finding without its sentence.
type finding struct {
	Signal pressure.Signal
	Kind   kubeletconfig.Kind
}

func kinds(result kubeletconfig.Result) []finding {
	var all []finding
	for _, f := range result.Findings {
		all = append(all, finding{f.Signal, f.Kind})
	}
	return all
}

func TestWhichActsFirst(t *testing.T) {
	t.Parallel()
	const memory, nodefs = pressure.MemoryAvailable, pressure.NodeFSAvailable
	ten, five, one := pressure.Fraction(.1), pressure.Fraction(.05), pressure.Absolute(gi)
	for _, test := range []struct {
		name         string
		ours, theirs []pressure.Threshold
		want         []finding
	}{
		{"the defaults", []pressure.Threshold{hard(memory, five)}, []pressure.Threshold{hard(memory, pressure.Absolute(100*mi))}, nil},
		{"a percentage above an amount", []pressure.Threshold{hard(nodefs, one)}, []pressure.Threshold{hard(nodefs, five)}, []finding{{nodefs, kubeletconfig.KubeletFirst}}},
		{"an amount above a percentage", []pressure.Threshold{hard(nodefs, pressure.Absolute(6*gi))}, []pressure.Threshold{hard(nodefs, five)}, nil},
		{"equal lines", []pressure.Threshold{hard(nodefs, five)}, []pressure.Threshold{hard(nodefs, five)}, []finding{{nodefs, kubeletconfig.KubeletFirst}}},
		{"evictd leaves the signal to the kubelet", nil, []pressure.Threshold{hard(nodefs, five)}, nil},
		{"the kubelet has no threshold", []pressure.Threshold{hard(nodefs, five)}, nil, nil},
		{
			"a soft one of evictd's is above and may come too late",
			[]pressure.Threshold{soft(nodefs, ten, time.Minute)},
			[]pressure.Threshold{hard(nodefs, five)},
			[]finding{{nodefs, kubeletconfig.KubeletMaybeFirst}},
		},
		{
			"a soft one of evictd's is below as well",
			[]pressure.Threshold{soft(nodefs, one, time.Minute)},
			[]pressure.Threshold{hard(nodefs, five)},
			[]finding{{nodefs, kubeletconfig.KubeletFirst}},
		},
		{
			"a hard one of evictd's is below, whatever its soft one is",
			[]pressure.Threshold{hard(nodefs, one), soft(nodefs, ten, time.Minute)},
			[]pressure.Threshold{hard(nodefs, five)},
			[]finding{{nodefs, kubeletconfig.KubeletFirst}},
		},
		{
			"a soft one of the kubelet's waits longer",
			[]pressure.Threshold{hard(nodefs, one), soft(nodefs, ten, time.Minute)},
			[]pressure.Threshold{soft(nodefs, five, time.Minute)},
			nil,
		},
		{
			"a soft one of the kubelet's waits less",
			[]pressure.Threshold{hard(nodefs, one), soft(nodefs, ten, time.Minute)},
			[]pressure.Threshold{soft(nodefs, five, 59*time.Second)},
			[]finding{{nodefs, kubeletconfig.KubeletFirst}},
		},
		{
			"a soft one of the kubelet's is above everything",
			[]pressure.Threshold{hard(nodefs, five)},
			[]pressure.Threshold{soft(nodefs, ten, time.Hour)},
			[]finding{{nodefs, kubeletconfig.KubeletFirst}},
		},
		{
			"once per signal, the hard one first",
			[]pressure.Threshold{hard(nodefs, one), hard(memory, one)},
			[]pressure.Threshold{soft(nodefs, ten, time.Hour), hard(nodefs, five), hard(memory, five)},
			[]finding{{memory, kubeletconfig.KubeletFirst}, {nodefs, kubeletconfig.KubeletFirst}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := kubeletconfig.Compare(test.ours, kubelet(test.theirs...), calm())
			if diff := cmp.Diff(test.want, kinds(got)); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, got.Findings)
			}
		})
	}
}

// The two definitions of memory.available are two figures: only where the readings agree
// with the configurations is anything certain.
func TestMemoryIsMeasuredInTwoWays(t *testing.T) {
	t.Parallel()
	ours, theirs := []pressure.Threshold{hard(pressure.MemoryAvailable, pressure.Absolute(gi))}, kubelet(hard(pressure.MemoryAvailable, pressure.Fraction(.05)))
	for _, test := range []struct {
		name    string
		change  func(*kubeletconfig.Node)
		kind    kubeletconfig.Kind
		because string
	}{
		{"one definition", func(*kubeletconfig.Node) {}, kubeletconfig.KubeletFirst, ""},
		{"two, and the kubelet's is nearer", func(n *kubeletconfig.Node) { n.Definition = pressure.Kernel }, kubeletconfig.KubeletFirst, "evictd's line is 49.0Gi away and the kubelet's 45.0Gi"},
		{"two, and evictd's is nearer", func(n *kubeletconfig.Node) {
			n.Definition, n.KubeletMemory.Available = pressure.Kernel, 70*gi
		}, kubeletconfig.KubeletMaybeFirst, "49.0Gi away and the kubelet's 65.0Gi"},
		{"two, and the kubelet's is not known", func(n *kubeletconfig.Node) {
			n.Definition, n.KubeletMemory = pressure.Kernel, pressure.Observation{}
		}, kubeletconfig.KubeletMaybeFirst, "cannot be read here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			node := calm()
			test.change(node)
			got := kubeletconfig.Compare(ours, theirs, node)
			if diff := cmp.Diff([]finding{{pressure.MemoryAvailable, test.kind}}, kinds(got)); diff != "" {
				t.Fatalf("findings (-want +got):\n%s", diff)
			}
			if detail := got.Findings[0].Detail; !strings.Contains(detail, test.because) {
				t.Errorf("%q does not say %q", detail, test.because)
			}
		})
	}
}

// The kubelet copies its hard threshold of memory.available for the limit of the pods' cgroup. That evictd has none
// there is found, and what the two measure there is compared as for memory.available.
func TestTheCopyForTheLimitOfThePodsCgroup(t *testing.T) {
	t.Parallel()
	const signal = pressure.AllocatableMemoryAvailable
	theirs := kubelet(hard(pressure.MemoryAvailable, pressure.Absolute(100*mi)), hard(signal, pressure.Absolute(100*mi)))
	for _, test := range []struct {
		name    string
		ours    []pressure.Threshold
		change  func(*kubeletconfig.Node)
		want    []finding
		because string
	}{
		{"evictd has none", nil, func(*kubeletconfig.Node) {}, []finding{{signal, kubeletconfig.KubeletFirst}}, "add allocatableMemory.available: 200Mi to evictionHard"},
		{"the cgroup has no limit", nil, func(n *kubeletconfig.Node) { n.KubeletAllocatable.State = pressure.Absent }, nil, ""},
		{"the limit is all of the memory", nil, func(n *kubeletconfig.Node) { n.KubeletAllocatable.Capacity = 100 * gi }, nil, ""},
		{"evictd's is above", []pressure.Threshold{hard(signal, pressure.Fraction(.05))}, func(*kubeletconfig.Node) {}, nil, ""},
		{"evictd's is below, and nearer", []pressure.Threshold{hard(signal, pressure.Absolute(50*mi))}, func(n *kubeletconfig.Node) {
			n.Definition, n.KubeletAllocatable.Available = pressure.Kernel, 70*gi
		}, []finding{{signal, kubeletconfig.KubeletMaybeFirst}}, "the kubelet's 69.9Gi; write a threshold above 100.0Mi"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			node := calm()
			test.change(node)
			got := kubeletconfig.Compare(test.ours, theirs, node)
			if diff := cmp.Diff(test.want, kinds(got)); diff != "" {
				t.Fatalf("findings (-want +got):\n%s", diff)
			}
			if len(got.Findings) > 0 && !strings.Contains(got.Findings[0].Detail, test.because) {
				t.Errorf("%q does not say %q", got.Findings[0].Detail, test.because)
			}
		})
	}
}

func TestImagesAreDeletedFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		signal    pressure.Signal
		line      float32
		high      int
		dedicated bool
		found     bool
	}{
		{"imagefs above the mark", pressure.ImageFSAvailable, .17, 85, true, true},
		{"imagefs at the mark", pressure.ImageFSAvailable, .16, 85, true, false},
		{"images are never deleted", pressure.ImageFSAvailable, .17, 100, true, false},
		{"nodefs without images", pressure.NodeFSAvailable, .17, 85, true, false},
		{"nodefs with images", pressure.NodeFSAvailable, .17, 85, false, true},
		{"inodes", pressure.ImageFSInodesFree, .17, 85, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			node, theirs := calm(), kubelet()
			node.DedicatedImageFS, theirs.ImageGCHighPercent = test.dedicated, test.high
			got := kubeletconfig.Compare([]pressure.Threshold{hard(test.signal, pressure.Fraction(test.line))}, theirs, node)
			if found := len(got.Findings) == 1 && got.Findings[0].Kind == kubeletconfig.BeforeImages; found != test.found {
				t.Errorf("found %v, want %v: %+v", found, test.found, got.Findings)
			}
		})
	}
}

func TestAFindingSaysBothValuesAndWhatToWrite(t *testing.T) {
	t.Parallel()
	got := kubeletconfig.Compare([]pressure.Threshold{hard(pressure.NodeFSAvailable, pressure.Absolute(gi))},
		kubelet(hard(pressure.NodeFSAvailable, pressure.Fraction(.05))), calm())
	const want = "the kubelet evicts below 5% (5.0Gi, evictionHard in /k.yaml), without asking budgets and with one second of grace; " +
		"evictd below 1.0Gi (evictionHard); write a threshold above 5.0Gi in evictd's configuration, or a lower one in the kubelet's"
	if len(got.Findings) != 1 || got.Findings[0].Detail != want {
		t.Errorf("got  %+v\nwant %s", got.Findings, want)
	}
}

// What cannot be read is not compared: nothing is made up.
func TestUnknownSignalsAreNotCompared(t *testing.T) {
	t.Parallel()
	node := calm()
	for _, state := range []pressure.State{pressure.Unknown, pressure.Absent} {
		node.Sample.Observations[pressure.NodeFSAvailable] = pressure.Observation{State: state}
		got := kubeletconfig.Compare([]pressure.Threshold{hard(pressure.NodeFSAvailable, pressure.Absolute(gi))},
			kubelet(hard(pressure.NodeFSAvailable, pressure.Absolute(2*gi))), node)
		if len(got.Compared)+len(got.Findings) != 0 {
			t.Errorf("%v: %+v", state, got)
		}
	}
}
