package usage

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// CRI-O can keep images on their own filesystem and writable layers on nodefs. A pod's
// layers then count to nodefs; counted to imagefs they would select the wrong victim.
func TestFaultLayersOnNodeFSBesideImages(t *testing.T) {
	t.Parallel()
	filesystem := func(capacity, used uint64) *statsapi.FsStats {
		return &statsapi.FsStats{CapacityBytes: &capacity, AvailableBytes: new(capacity / 2), UsedBytes: &used}
	}
	root, images := filesystem(1000, 1), filesystem(4000, 2)
	onBoth := DiskUse{NodeFS: knownUse(120, 12), ImageFS: knownUse(120, 12)}
	bothSplit := onBoth
	bothSplit.SplitLayers = true
	unseen := DiskUse{NodeFS: knownUse(20, 2), ImageFS: knownUse(20, 2), SplitLayers: true}
	onImages := DiskUse{NodeFS: knownUse(20, 2), ImageFS: knownUse(100, 10)}
	split := DiskUse{NodeFS: knownUse(120, 12), ImageFS: knownUse(0, 0), SplitLayers: true}
	for name, test := range map[string]struct {
		dedicated bool
		runtime   *statsapi.RuntimeStats
		want      DiskUse
	}{
		"layers are on nodefs":                             {true, &statsapi.RuntimeStats{ImageFs: images, ContainerFs: root}, split},
		"two disks of the same size":                       {true, &statsapi.RuntimeStats{ImageFs: filesystem(1000, 2), ContainerFs: root}, split},
		"nothing is known but what is stored":              {true, &statsapi.RuntimeStats{ImageFs: &statsapi.FsStats{UsedBytes: new(uint64(1))}, ContainerFs: &statsapi.FsStats{}}, split},
		"layers are with the images":                       {true, &statsapi.RuntimeStats{ImageFs: images, ContainerFs: filesystem(4000, 2)}, onImages},
		"layers have a third filesystem":                   {true, &statsapi.RuntimeStats{ImageFs: images, ContainerFs: filesystem(9000, 1)}, onImages},
		"a kubelet that does not tell of it":               {true, &statsapi.RuntimeStats{ImageFs: images}, onImages},
		"a kubelet that tells nothing":                     {true, nil, onImages},
		"what is read as imagefs is nodefs as well":        {false, &statsapi.RuntimeStats{ImageFs: images, ContainerFs: root}, bothSplit},
		"images and layers are on a disk that is not seen": {false, &statsapi.RuntimeStats{ImageFs: images, ContainerFs: images}, unseen},
		"that, by a kubelet without containerFs":           {false, &statsapi.RuntimeStats{ImageFs: images}, unseen},
		"one filesystem":                                   {false, &statsapi.RuntimeStats{ImageFs: root, ContainerFs: root}, onBoth},
		"one filesystem, or so it seems":                   {false, nil, onBoth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			summary := &statsapi.Summary{
				Node: statsapi.NodeStats{Fs: filesystem(1000, 700), Runtime: test.runtime},
				Pods: []statsapi.PodStats{{
					PodRef:     statsapi.PodReference{UID: "u"},
					Containers: []statsapi.ContainerStats{{Rootfs: stats(100, 10), Logs: stats(20, 2)}},
				}},
			}
			got := DiskUses(summary, test.dedicated, map[string][]string{"u": nil})["u"]
			for _, parts := range []struct {
				on   FSUse
				made Parts
			}{{got.NodeFS, got.OnNodeFS}, {got.ImageFS, got.OnImageFS}} {
				if made := parts.made.Layers.Bytes + parts.made.Logs.Bytes + parts.made.Volumes.Bytes; made != parts.on.Bytes {
					t.Errorf("the parts are %d together, the sum is %d", made, parts.on.Bytes)
				}
			}
			test.want.Time, test.want.OnNodeFS, test.want.OnImageFS = got.Time, got.OnNodeFS, got.OnImageFS
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("use (-want +got):\n%s", diff)
			}
		})
	}
}
