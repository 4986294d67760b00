//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// Where images have their own filesystem, the pod that filled the full filesystem is
// evicted, by the kubelet's figures as well as by evictd's own, which the component disk-node makes possible.
func TestEachFilesystemHasItsOwnVictim(t *testing.T) {
	on(t, twoDisks)
	s := emptyScene(t)
	s.until("the kubelet sees two filesystems", func(ctx context.Context) bool {
		seen, err := live.Summary(ctx)
		if err != nil || seen.Node.Fs == nil || seen.Node.Runtime == nil || seen.Node.Runtime.ImageFs == nil {
			return false
		}
		nodefs, imagefs := seen.Node.Fs.CapacityBytes, seen.Node.Runtime.ImageFs.CapacityBytes
		return nodefs != nil && imagefs != nil && *nodefs > uint64(twoDisks.Images) && *imagefs < uint64(twoDisks.Images)
	})
	eachHasItsOwnVictim(s, "summary", 1)
	s.withPatch(s.component("disk-node"))
	s.readOnlyBelow("/host/sys/fs/cgroup")
	// Three times as much: the first victims' space may be reclaimed at any moment.
	eachHasItsOwnVictim(s, "node", 3)
}

// eachHasItsOwnVictim makes each filesystem short once the source has measured what the
// pods have written, of which one has nothing on a disk. By the other filesystem's figures, or by both
// together, another pod would be evicted.
func eachHasItsOwnVictim(s *scene, source string, times int64) {
	s.Helper()
	policy := fmt.Sprintf("protect: {barePods: false}\ndisk: {source: %s}", source)
	s.threshold(node.PodMemory, headroom, true, policy) // of no filesystem
	layer := wrote(s, "layer-"+source, fileOf("/fill", 100*times))
	volume := wrote(s, "volume-"+source, fileOf("/data/fill", 120*times))
	both := wrote(s, "both-"+source, fileOf("/fill", 90*times), []string{fmt.Sprintf("--output-bytes=%dMi", 70*times)})
	memory := writer(s, "memory-"+source, fileOf("/shm/fill", 40), func(spec *corev1.PodSpec) {
		node.Mount(spec, "shm", "/shm", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	})
	memory.works()
	untilMeasured(s, node.ImageSpace, map[string]int64{layer.Name: 100 * times, volume.Name: 0, both.Name: 90 * times, memory.Name: 0})
	untilMeasured(s, node.DiskSpace, map[string]int64{layer.Name: 0, volume.Name: 120 * times, both.Name: 70 * times, memory.Name: 0})
	gone := s.victims()
	for _, short := range []struct {
		signal string
		goes   *worker
		stay   []*worker
	}{
		{node.ImageSpace, layer, []*worker{volume, both}},
		{node.DiskSpace, volume, []*worker{both}},
	} {
		s.threshold(short.signal, -50*times, false, policy) // met at once
		d := s.gone(&short.goes.Pod)
		if d.Signal != short.signal || len(d.Attempts) != 1 || d.Attempts[0].Outcome != "Evicted" {
			s.Errorf("the decision: %+v", d)
		}
		for _, w := range short.stay {
			s.stays(&w.Pod)
		}
		s.ticks()
		gone = append(gone, short.goes.Name)
		slices.Sort(gone)
		if got := s.victims(); !slices.Equal(got, gone) {
			s.Errorf("evictd has evicted %q, want %q", got, gone)
		}
	}
}

// untilMeasured waits until the source's figures of the pods are what they wrote, in MiB, and below one where that
// is nothing. Directories, and the prefixes of the lines of a log, add a little.
func untilMeasured(s *scene, signal string, written map[string]int64) {
	s.Helper()
	s.until("the pods' use of "+signal+" is known", func(ctx context.Context) bool {
		used := s.diskUse(ctx, signal)
		for name, mebibytes := range written {
			is, known := used[name]
			if !known || is>>20 < mebibytes || is>>20 > mebibytes*5/4 {
				return false
			}
		}
		return true
	})
}
