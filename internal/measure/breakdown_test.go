package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

func TestBreakdown(t *testing.T) {
	t.Parallel()
	seen := pressure.Observation{State: pressure.Known, Available: 100, Capacity: 1100}
	withoutDeleted := func(u usage.DiskUse) usage.DiskUse {
		u.NodeFS[usage.Deleted], u.ImageFS[usage.Deleted] = usage.FSUse{}, usage.FSUse{}
		return u
	}
	partlyCounted := measuretest.PartsOf(false, 10, 0, 5, 0)
	partlyCounted.NodeFS[usage.Volumes].BytesKnown = false
	// CRI-O's layout: layers are on nodefs, and imagefs holds images alone.
	split := measuretest.Split(measuretest.PartsFrom(500, 20, 30, 7), measuretest.PartsFrom(0, 0, 0, 0))
	// The kubelet's folder has a disk of its own; logs and layers are on the images'.
	apart := measuretest.Split(measuretest.PartsFrom(0, 0, 30, 0), measuretest.PartsFrom(500, 20, 0, 7))
	tooMuch := measuretest.PartsOf(false, 900, 100, 0, 1)
	for _, test := range []struct {
		name   string
		signal pressure.Signal
		uses   map[string]usage.DiskUse
		want   decide.Breakdown
	}{
		{
			"one filesystem", pressure.NodeFSAvailable,
			map[string]usage.DiskUse{"a": measuretest.PartsOf(false, 100, 20, 300, 40), "b": measuretest.PartsOf(false, 10, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 110, decide.PartLogs: 20, decide.PartEmptyDirs: 300, decide.PartDeleted: 40, decide.PartOther: 530},
		},
		{
			"inodes", pressure.NodeFSInodesFree,
			map[string]usage.DiskUse{"a": measuretest.PartsOf(false, 100, 20, 300, 40), "b": measuretest.PartsOf(false, 10, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 11, decide.PartLogs: 2, decide.PartEmptyDirs: 30, decide.PartDeleted: 4, decide.PartOther: 953},
		},
		{
			"nodefs beside images of their own", pressure.NodeFSAvailable,
			map[string]usage.DiskUse{"a": measuretest.PartsOf(true, 100, 20, 300, 0), "b": measuretest.PartsOf(true, 10, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 0, decide.PartLogs: 20, decide.PartEmptyDirs: 300, decide.PartDeleted: 0, decide.PartOther: 680},
		},
		{
			"imagefs", pressure.ImageFSAvailable,
			map[string]usage.DiskUse{"a": measuretest.PartsOf(true, 100, 20, 300, 0), "b": measuretest.PartsOf(true, 10, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 110, decide.PartLogs: 0, decide.PartEmptyDirs: 0, decide.PartDeleted: 0, decide.PartOther: 890},
		},
		{
			"a source that knows of no deleted files", pressure.NodeFSAvailable,
			map[string]usage.DiskUse{"a": withoutDeleted(measuretest.PartsOf(false, 100, 20, 300, 0)), "b": measuretest.PartsOf(false, 10, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 110, decide.PartLogs: 20, decide.PartEmptyDirs: 300, decide.PartOther: 570},
		},
		{
			"layers on nodefs, nodefs", pressure.NodeFSAvailable,
			map[string]usage.DiskUse{"a": split, "b": measuretest.PartsOf(true, 0, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 500, decide.PartLogs: 20, decide.PartEmptyDirs: 30, decide.PartDeleted: 7, decide.PartOther: 443},
		},
		{
			"layers on nodefs, imagefs", pressure.ImageFSAvailable,
			map[string]usage.DiskUse{"a": split, "b": measuretest.PartsOf(true, 0, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 0, decide.PartLogs: 0, decide.PartEmptyDirs: 0, decide.PartDeleted: 0, decide.PartOther: 1000},
		},
		{
			"layers on nodefs, without the right to deleted files", pressure.NodeFSAvailable,
			map[string]usage.DiskUse{"a": withoutDeleted(measuretest.Split(measuretest.PartsFrom(500, 20, 30, 0), measuretest.PartsFrom(0, 0, 0, 0))), "b": measuretest.PartsOf(true, 0, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 500, decide.PartLogs: 20, decide.PartEmptyDirs: 30, decide.PartOther: 450},
		},
		{
			"logs beside the layers", pressure.ImageFSAvailable,
			map[string]usage.DiskUse{"a": apart, "b": measuretest.PartsOf(true, 0, 0, 0, 0)},
			decide.Breakdown{decide.PartLayers: 500, decide.PartLogs: 20, decide.PartEmptyDirs: 0, decide.PartDeleted: 7, decide.PartOther: 473},
		},
		{
			"at least, where a pod is missing", pressure.NodeFSAvailable,
			map[string]usage.DiskUse{"a": measuretest.PartsOf(false, 100, 20, 300, 0)},
			decide.Breakdown{decide.PartLayers: 100, decide.PartLogs: 20, decide.PartEmptyDirs: 300},
		},
		{
			"at least, where a part of one is not known", pressure.NodeFSAvailable,
			map[string]usage.DiskUse{"a": measuretest.PartsOf(false, 1, 1, 1, 1), "b": partlyCounted},
			decide.Breakdown{decide.PartLayers: 11, decide.PartLogs: 1, decide.PartEmptyDirs: 6, decide.PartDeleted: 1},
		},
		{"nothing is known", pressure.NodeFSAvailable, nil, decide.Breakdown{}},
		{"the pods use more than is used", pressure.NodeFSAvailable, map[string]usage.DiskUse{"a": tooMuch, "b": measuretest.PartsOf(false, 0, 0, 0, 0)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pods := []*nodepods.Pod{
				{Pod: rank.Pod{UID: "a"}, CgroupUID: "a"},
				{Pod: rank.Pod{UID: "b"}, CgroupUID: "b"},
				{Pod: rank.Pod{UID: "done", Marks: rank.Marks{Finished: true}}, CgroupUID: "done"},
			}
			p := &pressure.Pressure{Threshold: pressure.Threshold{Signal: test.signal}, Observed: seen}
			if diff := cmp.Diff(test.want, DiskUses(p, pods, test.uses, 0).Breakdown); diff != "" {
				t.Errorf("breakdown (-want +got):\n%s", diff)
			}
		})
	}
}

// The kubelet measures a static pod under the UID that it has on its node.
func TestStaticPodIsMeasured(t *testing.T) {
	t.Parallel()
	pod := &nodepods.Pod{Pod: rank.Pod{UID: "mirror", Marks: rank.Marks{Mirror: true}}, CgroupUID: "hash"}
	p := &pressure.Pressure{Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable}}
	all := DiskUses(p, []*nodepods.Pod{pod}, map[string]usage.DiskUse{"hash": measuretest.PartsOf(false, 1, 2, 3, 4)}, 0)
	if got := all.ByUID[pod.UID]; !got.Known || got.Value != 10 || len(all.Incomplete) > 0 {
		t.Errorf("%+v, incomplete %v", got, all.Incomplete)
	}
}

// Containerfs is where the layers are.
func TestContainerFSIsWhereTheLayersAre(t *testing.T) {
	t.Parallel()
	for _, split := range []bool{false, true} {
		u := measuretest.DiskUse(1, 2, 3, 4)
		u.SplitLayers = split
		bytes, inodes := int64(3), int64(4)
		if split {
			bytes, inodes = 1, 2
		}
		expected := diskExpected(&u)
		if got := expected.At(pressure.ContainerFSAvailable); got != bytes {
			t.Errorf("layers on nodefs: %t: containerfs.available should get back %d, want %d", split, got, bytes)
		}
		if got := expected.At(pressure.ContainerFSInodesFree); got != inodes {
			t.Errorf("layers on nodefs: %t: containerfs.inodesFree should get back %d, want %d", split, got, inodes)
		}
		for _, signal := range pressure.Signals() {
			if _, known := expected.Of(signal); known != signal.OnDisk() {
				t.Errorf("%v is known: %v; want the six signals of a disk", signal, known)
			}
		}
	}
}
