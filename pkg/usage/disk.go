package usage

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// FSUse is what one pod uses of one filesystem. In the zero value nothing is known.
type FSUse struct {
	// Bytes and Inodes are exact where BytesKnown and InodesKnown are set. Otherwise they
	// are lower bounds: the true figure may be any amount larger.
	Bytes, Inodes           int64
	BytesKnown, InodesKnown bool
}

// add adds a figure. Without one of the two, or where it would overflow, the sum is a lower bound.
func (u *FSUse) add(figure FSUse) {
	plus := func(total, n int64, known bool) (int64, bool) {
		if n > math.MaxInt64-total {
			return total, false
		}
		return total + n, known
	}
	u.Bytes, u.BytesKnown = plus(u.Bytes, figure.Bytes, u.BytesKnown && figure.BytesKnown)
	u.Inodes, u.InodesKnown = plus(u.Inodes, figure.Inodes, u.InodesKnown && figure.InodesKnown)
}

// DiskUse is what one pod uses of the node's filesystems.
type DiskUse struct {
	// NodeFS is the kubelet's filesystem, ImageFS the container runtime's. On a node
	// with one filesystem both are the same figures.
	NodeFS, ImageFS Parts
	// SplitLayers says that writable layers are on nodefs and images elsewhere, so that the
	// filesystem that Kubernetes calls containerfs is nodefs; otherwise it is imagefs. It is
	// set from a Summary, too, where evictd reads nodefs as imagefs and images are elsewhere,
	// with layers or without: their own filesystem is not read.
	SplitLayers bool
	// Time is when the oldest of the figures was taken, by the kubelet's clock for its
	// figures; zero when one of them has no time.
	Time time.Time
	// Reason says why a sum is a lower bound or nothing at all is known; "" when everything
	// is known, and for a Summary.
	Reason string
}

// Part is a kind of what one pod uses of a filesystem. The zero value is Layers.
type Part uint8

// The parts.
const (
	// Layers, Logs and Volumes are containers' writable layers, their logs, and disk
	// emptyDirs (in a Summary also the other volumes that DiskUses names).
	Layers Part = iota
	Logs
	Volumes
	// Deleted are files that the pod's processes have open and that have no name any more.
	Deleted

	partCount
)

// String names the part in a sentence.
func (p Part) String() string {
	return [...]string{Layers: "writable layer", Logs: "logs", Volumes: "emptyDir", Deleted: "deleted files"}[p]
}

// Parts are what one pod uses of one filesystem, by kind.
type Parts [partCount]FSUse

// Sum returns what the pod uses of the filesystem. It includes deleted files where they are
// known; where they are not, it is without them, as the kubelet's always is.
func (p *Parts) Sum() FSUse {
	sum := p[Deleted]
	sum.BytesKnown, sum.InodesKnown = true, true
	for _, part := range p[:Deleted] {
		sum.add(part)
	}
	return sum
}

// where is a set of the node's filesystems.
type where uint8

const (
	nowhere  where = 0
	onNodeFS where = 1 << iota
	onImageFS
	onBoth = onNodeFS | onImageFS
)

// usesNothing is a pod that is known to use nothing.
func usesNothing() DiskUse {
	none := FSUse{BytesKnown: true, InodesKnown: true}
	parts := Parts{none, none, none, none}
	return DiskUse{NodeFS: parts, ImageFS: parts}
}

// add adds a figure to a part on each of the filesystems.
func (u *DiskUse) add(p Part, on where, figure FSUse) {
	if on&onNodeFS != 0 {
		u.NodeFS[p].add(figure)
	}
	if on&onImageFS != 0 {
		u.ImageFS[p].add(figure)
	}
}

// DiskUses computes the pods' disk usage as the kubelet ranks by it
// (pkg/kubelet/eviction/helpers.go, podDiskUsage and buildSignalToRankFunc). On a node with
// one filesystem that is writable layers, logs and local volumes. Where images have their
// own filesystem, it is logs and volumes on nodefs and writable layers on imagefs. Where the
// layers stayed on nodefs (see splitLayers), it is all of them on nodefs, and nothing on
// imagefs. DedicatedImageFS says that evictd reads another filesystem as imagefs than as
// nodefs. Otherwise imagefs has the figures of nodefs, whatever the Summary says of images.
//
// A Summary names volumes without their kind, so volumes maps a pod's UID to the names of
// the volumes that count: emptyDirs of the default medium, configMaps and gitRepos. A pod
// that has none is in it with an empty list.
//
// Unlike in the kubelet, a missing figure makes the pod's sum a lower bound instead of smaller:
// of a pod that is not in volumes, or of a container or volume that the kubelet has not
// measured. Pods without a container in the Summary are left out.
func DiskUses(summary *statsapi.Summary, dedicatedImageFS bool, volumes map[string][]string) map[string]DiskUse {
	uses := make(map[string]DiskUse, len(summary.Pods))
	split, unseen := splitLayers(&summary.Node), !dedicatedImageFS && layersElsewhere(&summary.Node)
	layers, rest := onBoth, onBoth
	switch {
	case unseen:
		layers = nowhere
	case dedicatedImageFS && split:
		layers, rest = onNodeFS, onNodeFS
	case dedicatedImageFS:
		layers, rest = onImageFS, onNodeFS
	}
	for i := range summary.Pods {
		pod := &summary.Pods[i]
		if pod.PodRef.UID == "" || len(pod.Containers) == 0 {
			continue
		}
		names, known := volumes[pod.PodRef.UID]
		use := diskUse(pod, layers, rest, names, known)
		use.SplitLayers = split || unseen
		uses[pod.PodRef.UID] = use
	}
	return uses
}

// layersElsewhere reports whether a Summary says that writable layers are not on nodefs: their
// filesystem has another size.
func layersElsewhere(node *statsapi.NodeStats) bool {
	if node.Fs == nil || node.Runtime == nil {
		return false
	}
	layers := cmp.Or(node.Runtime.ContainerFs, node.Runtime.ImageFs, node.Fs)
	return node.Fs.CapacityBytes != nil && layers.CapacityBytes != nil && *node.Fs.CapacityBytes != *layers.CapacityBytes
}

// splitLayers reports whether a Summary says that writable layers are on nodefs and images
// elsewhere. The kubelet writes the same figures for both of the runtime's filesystems
// unless the runtime reports two (pkg/kubelet/stats/cadvisor_stats_provider.go,
// ImageFsStats; among the runtimes only CRI-O does). It supports only layers on nodefs
// (KEP-4191). Layers on a third filesystem are counted to the runtime's directory, which is
// read as imagefs.
func splitLayers(node *statsapi.NodeStats) bool {
	return node.Runtime != nil && node.Runtime.ImageFs != nil && node.Runtime.ContainerFs != nil &&
		!sameFilesystem(node.Runtime.ImageFs, node.Runtime.ContainerFs) && !layersElsewhere(node)
}

func sameFilesystem(a, b *statsapi.FsStats) bool {
	x, y := *a, *b
	x.Time, y.Time = metav1.Time{}, metav1.Time{}
	return reflect.DeepEqual(x, y)
}

// diskUse adds up the figures of a pod with its layers and the rest on those filesystems.
func diskUse(pod *statsapi.PodStats, layers, rest where, volumes []string, volumesKnown bool) DiskUse {
	use := usesNothing()
	use.add(Deleted, onBoth, FSUse{})
	var times []time.Time // zero for a figure without one, which is then the oldest
	add := func(p Part, on where, figure *statsapi.FsStats) {
		figure = cmp.Or(figure, &statsapi.FsStats{})
		use.add(p, on, fsUse(figure))
		times = append(times, figure.Time.Time)
	}
	for i := range pod.Containers {
		add(Layers, layers, pod.Containers[i].Rootfs)
		add(Logs, rest, pod.Containers[i].Logs)
	}
	for _, name := range volumes {
		var figure *statsapi.FsStats // nil when there is none
		if at := slices.IndexFunc(pod.VolumeStats, func(v statsapi.VolumeStats) bool { return v.Name == name }); at >= 0 {
			figure = &pod.VolumeStats[at].FsStats
		}
		add(Volumes, rest, figure)
	}
	if !volumesKnown {
		add(Volumes, rest, nil)
	}
	use.Time = slices.MinFunc(times, time.Time.Compare)
	return use
}

// fsUse returns the figures of a Summary. What no filesystem can hold is unknown.
func fsUse(stats *statsapi.FsStats) (use FSUse) {
	figure := func(n *uint64) (int64, bool) {
		if n == nil || *n > math.MaxInt64 {
			return 0, false
		}
		return int64(*n), true
	}
	use.Bytes, use.BytesKnown = figure(stats.UsedBytes)
	use.Inodes, use.InodesKnown = figure(stats.InodesUsed)
	return use
}
