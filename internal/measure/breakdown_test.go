package measure

import (
	"maps"
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
	const disk, hidden = pressure.NodeFSAvailable, -1
	of := func(layers, logs, emptyDirs, deleted, other int64) decide.Breakdown {
		all := decide.Breakdown{
			decide.PartLayers: layers, decide.PartLogs: logs, decide.PartEmptyDirs: emptyDirs, decide.PartDeleted: deleted, decide.PartOther: other,
		}
		maps.DeleteFunc(all, func(_ decide.Part, used int64) bool { return used == hidden })
		return all
	}
	large, small := measuretest.PartsOf(false, 100, 20, 300, 40), measuretest.PartsOf(false, 10, 0, 0, 0)
	// Of these the layers are on a filesystem of their own.
	largeApart, smallApart := measuretest.PartsOf(true, 100, 20, 300, 0), measuretest.PartsOf(true, 10, 0, 0, 0)
	withoutDeleted, partlyCounted := large, measuretest.PartsOf(false, 10, 0, 5, 0)
	withoutDeleted.NodeFS[usage.Deleted], partlyCounted.NodeFS[usage.Volumes].BytesKnown = usage.FSUse{}, false
	for _, test := range []struct {
		name   string
		signal pressure.Signal
		uses   []usage.DiskUse
		want   decide.Breakdown
	}{
		{"one filesystem", disk, []usage.DiskUse{large, small}, of(110, 20, 300, 40, 530)},
		{"inodes", pressure.NodeFSInodesFree, []usage.DiskUse{large, small}, of(11, 2, 30, 4, 953)},
		{"nodefs beside images of their own", disk, []usage.DiskUse{largeApart, smallApart}, of(0, 20, 300, 0, 680)},
		{"imagefs", pressure.ImageFSAvailable, []usage.DiskUse{largeApart, smallApart}, of(110, 0, 0, 0, 890)},
		{"a source that knows of no deleted files", disk, []usage.DiskUse{withoutDeleted, small}, of(110, 20, 300, hidden, 570)},
		{"at least, where a pod is missing", disk, []usage.DiskUse{largeApart}, of(hidden, 20, 300, hidden, hidden)},
		{"at least, where a part of one is not known", disk, []usage.DiskUse{small, partlyCounted}, of(20, hidden, 5, hidden, hidden)},
		{"nothing is known", disk, nil, of(hidden, hidden, hidden, hidden, hidden)},
		{"the pods use more than is used", disk, []usage.DiskUse{large, measuretest.PartsOf(false, 900, 100, 0, 1)}, nil},
	} {
		measured := map[string]usage.DiskUse{}
		for i, use := range test.uses {
			measured[[]string{"a", "b"}[i]] = use
		}
		pods := []*nodepods.Pod{{CgroupUID: "a"}, {CgroupUID: "b"}, {Pod: rank.Pod{Marks: rank.Marks{Finished: true}}, CgroupUID: "done"}}
		p := &pressure.Pressure{
			Threshold: pressure.Threshold{Signal: test.signal}, Observed: pressure.Observation{State: pressure.Known, Available: 100, Capacity: 1100},
		}
		if diff := cmp.Diff(test.want, DiskUses(p, pods, measured, 0).Breakdown); diff != "" {
			t.Errorf("%s: breakdown (-want +got):\n%s", test.name, diff)
		}
	}
}

// Containerfs is where the layers are. The kubelet measures a static pod under the UID that it has on its node.
func TestContainerFSIsWhereTheLayersAre(t *testing.T) {
	t.Parallel()
	pod := &nodepods.Pod{Pod: rank.Pod{UID: "mirror", Marks: rank.Marks{Mirror: true}}, CgroupUID: "hash"}
	p := &pressure.Pressure{Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable}}
	for split, want := range map[bool][2]int64{false: {3, 4}, true: {1, 2}} {
		u := measuretest.DiskUse(1, 2, 3, 4)
		u.SplitLayers = split
		all := DiskUses(p, []*nodepods.Pod{pod}, map[string]usage.DiskUse{"hash": u}, 0)
		use := all.ByUID[pod.UID]
		if !use.Known || use.Value != 1 || len(all.Incomplete) > 0 {
			t.Errorf("a static pod is measured as %+v, incomplete %v", use, all.Incomplete)
		}
		bytes, inodes := use.Expected.At(pressure.ContainerFSAvailable), use.Expected.At(pressure.ContainerFSInodesFree)
		if bytes != want[0] || inodes != want[1] {
			t.Errorf("layers on nodefs: %t: containerfs should get back %d bytes and %d inodes, want %v", split, bytes, inodes, want)
		}
		for _, signal := range pressure.Signals() {
			if _, known := use.Expected.Of(signal); known != signal.OnDisk() {
				t.Errorf("%v is known: %v; want the six signals of a disk", signal, known)
			}
		}
	}
}
