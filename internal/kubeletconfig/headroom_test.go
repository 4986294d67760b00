package kubeletconfig_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

// busy is a node of 16 GiB with that much available by the kernel's and by the kubelet's measure.
func busy(kernel, byKubelet int64) *kubeletconfig.Node {
	sample := &pressure.Sample{}
	sample.Observations[pressure.MemoryAvailable] = pressure.Observation{State: pressure.Known, Available: kernel, Capacity: 16 * gi}
	return &kubeletconfig.Node{
		Sample:        sample,
		KubeletMemory: pressure.Observation{State: pressure.Known, Available: byKubelet, Capacity: 16 * gi},
	}
}

// TestKubeletsThresholdIsNear: the kubelet's threshold of 100 MiB is near from 100 MiB above it on,
// until the node is 200 MiB above it, while evictd's 5 % (819.2 MiB of MemAvailable) is far.
func TestKubeletsThresholdIsNear(t *testing.T) {
	t.Parallel()
	own := hard(pressure.MemoryAvailable, pressure.Fraction(.05))
	onKubelets := func(line int64) []pressure.Threshold {
		return []pressure.Threshold{own, hard(pressure.KubeletMemoryAvailable, pressure.Absolute(line*mi))}
	}
	alone := []pressure.Threshold{own}
	for _, test := range []struct {
		name              string
		ours              []pressure.Threshold
		kernel, byKubelet int64 // MiB
		near, want        bool
	}{
		{"at the margin", alone, 6000, 200, false, true},
		{"above it", alone, 6000, 201, false, false},
		{"above it, and it was near", alone, 6000, 300, true, true},
		{"twice above it", alone, 6000, 301, true, false},
		{"below the threshold", alone, 6000, 20, false, true},
		{"evictd's is near too", alone, 919, 200, false, false},
		{"evictd's is just not near", alone, 920, 200, false, true},
		{"evictd's is met", alone, 700, 200, true, false},
		{"a threshold on the kubelet's measure is ahead", onKubelets(101), 6000, 200, true, false},
		{"one on the kubelet's measure is too late", onKubelets(100), 6000, 200, false, true},
		{"a soft one on the kubelet's measure waits", []pressure.Threshold{own, soft(pressure.KubeletMemoryAvailable, pressure.Absolute(gi), time.Second)}, 6000, 200, false, true},
		{"memory is left to the kubelet", nil, 6000, 200, false, false},
		{"evictd has a soft one alone", []pressure.Threshold{soft(pressure.MemoryAvailable, pressure.Fraction(.1), time.Minute)}, 6000, 200, false, false},
	} {
		theirs := kubelet(soft(pressure.MemoryAvailable, pressure.Absolute(gi), time.Minute), hard(pressure.MemoryAvailable, pressure.Absolute(100*mi)))
		got, known := kubeletconfig.MemoryHeadroom(test.ours, theirs, busy(test.kernel*mi, test.byKubelet*mi), test.near)
		if !known || got.Near != test.want || got.Bytes != (test.byKubelet-100)*mi {
			t.Errorf("%s: %v, %+v", test.name, known, got)
		}
		if (got.Detail != "") != got.Near {
			t.Errorf("%s: near %v, and it says %q", test.name, got.Near, got.Detail)
		}
	}
}

// A tenth of the threshold is the margin of a kubelet with a large one.
func TestMarginOfALargeThreshold(t *testing.T) {
	t.Parallel()
	ours, theirs := []pressure.Threshold{hard(pressure.MemoryAvailable, pressure.Absolute(gi))}, kubelet(hard(pressure.MemoryAvailable, pressure.Absolute(4*gi)))
	for headroom, want := range map[int64]bool{4 * gi / 10: true, 4*gi/10 + 1: false} {
		got, known := kubeletconfig.MemoryHeadroom(ours, theirs, busy(12*gi, 4*gi+headroom), false)
		if !known || got.Near != want {
			t.Errorf("%d bytes above: %v, %+v", headroom, known, got)
		}
	}
}

func TestWhatIsNearSaysBothFiguresAndWhatToWrite(t *testing.T) {
	t.Parallel()
	got, _ := kubeletconfig.MemoryHeadroom([]pressure.Threshold{hard(pressure.MemoryAvailable, pressure.Fraction(.05))},
		kubelet(hard(pressure.MemoryAvailable, pressure.Absolute(100*mi))), busy(6*gi, 190*mi), false)
	const want = "by the kubelet's measure, in which page cache in use is not available, 190.0Mi are left, and " +
		"the kubelet evicts below 100.0Mi (evictionHard in /k.yaml), without asking budgets and with one second of grace; " +
		"evictd below 5% (819.2Mi, evictionHard); memory.available is 6.0Gi; " +
		"add kubeletMemory.available: 200Mi to evictionHard in evictd's configuration, so that evictd evicts first, with the pod's own grace period"
	if got.Detail != want {
		t.Errorf("got  %s\nwant %s", got.Detail, want)
	}
}

// TestUnknownHeadroom: what is not known has no figure.
func TestUnknownHeadroom(t *testing.T) {
	t.Parallel()
	ours, theirs := []pressure.Threshold{hard(pressure.MemoryAvailable, pressure.Fraction(.05))}, kubelet(hard(pressure.MemoryAvailable, pressure.Absolute(100*mi)))
	unread := busy(6*gi, 190*mi)
	unread.KubeletMemory = pressure.Observation{}
	for name, other := range map[string]*kubeletconfig.Configuration{
		"no threshold": kubelet(), "a soft one": kubelet(soft(pressure.MemoryAvailable, pressure.Absolute(gi), time.Minute)),
	} {
		if got, known := kubeletconfig.MemoryHeadroom(ours, other, busy(6*gi, 190*mi), false); known {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, known := kubeletconfig.MemoryHeadroom(ours, theirs, unread, false); known {
		t.Errorf("no reading: %+v", got)
	}
	unseen := busy(6*gi, 190*mi)
	unseen.Sample = &pressure.Sample{}
	if got, known := kubeletconfig.MemoryHeadroom(ours, theirs, unseen, false); !known || got.Near {
		t.Errorf("MemAvailable is not known: %v, %+v", known, got)
	}
}
