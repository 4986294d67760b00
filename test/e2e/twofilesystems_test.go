//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/evictd/evictd/test/internal/node"
)

// Where images have their own filesystem, the pod that filled the full filesystem is
// evicted, by the kubelet's figures as well as by evictd's own.
func TestEachFilesystemHasItsOwnVictim(t *testing.T) {
	on(t, twoDisks)
	s := emptyScene(t)
	s.until("the kubelet sees two filesystems", func(ctx context.Context) bool {
		nodefs, imagefs, err := live.Filesystems(ctx)
		return err == nil && nodefs > uint64(twoDisks.Images) && imagefs < uint64(twoDisks.Images)
	})
	s.eachHasItsOwnVictim("summary", 1)
	s.withDiskNode()
	// Three times as much: the first victims' space may be reclaimed at any moment.
	s.eachHasItsOwnVictim("node", 3)
}

// eachHasItsOwnVictim makes each filesystem short once the source has measured what three
// pods have written. By the other filesystem's figures, or by both together, another pod
// would be evicted.
func (s *scene) eachHasItsOwnVictim(source string, times int64) {
	s.Helper()
	policy := fmt.Sprintf("protect: {barePods: false}\ndisk: {source: %s, stabilizationWindow: 2s}", source)
	s.threshold(node.PodMemory, headroom, true, policy) // of no filesystem
	layer := s.wrote("layer-"+source, fileOf("/fill", 100*times))
	volume := s.wrote("volume-"+source, fileOf("/data/fill", 120*times))
	both := s.wrote("both-"+source, fileOf("/fill", 90*times), []string{fmt.Sprintf("--output-bytes=%dMi", 70*times)})
	s.knows(node.ImageSpace, map[string]int64{layer.Name: 100 * times, volume.Name: 0, both.Name: 90 * times})
	s.knows(node.DiskSpace, map[string]int64{layer.Name: 0, volume.Name: 120 * times, both.Name: 70 * times})
	for _, short := range []struct {
		signal string
		goes   *writer
		stay   []*writer
	}{
		{node.ImageSpace, layer, []*writer{volume, both}},
		{node.DiskSpace, volume, []*writer{both}},
	} {
		evicted := s.evicted()
		s.threshold(short.signal, -50*times, false, policy) // met at once
		d := s.gone(&short.goes.Pod)
		if d.Signal != short.signal || len(d.Attempts) != 1 || d.Attempts[0].Outcome != "Evicted" {
			s.Errorf("the decision: %+v", d)
		}
		for _, w := range short.stay {
			s.stays(&w.Pod)
		}
		if now := s.evicted(); now != evicted+1 {
			s.Errorf("%v evictions for %s, want one more than %v", now, short.signal, evicted)
		}
	}
}

// wrote creates a pod that has written.
func (s *scene) wrote(name string, what ...[]string) *writer {
	s.Helper()
	w := s.writer(name, slices.Concat(what...))
	s.writes(w)
	return w
}

func fileOf(path string, mebibytes int64) []string {
	return []string{"--write=" + path, fmt.Sprintf("--write-bytes=%dMi", mebibytes)}
}

// knows waits until the source's figures of the pods are at least as new as what they wrote,
// in MiB, and below one where that is nothing.
func (s *scene) knows(signal string, written map[string]int64) {
	s.Helper()
	s.until("the pods' use of "+signal+" is known", func(ctx context.Context) bool {
		used := s.diskUse(ctx, signal)
		for name, mebibytes := range written {
			is, known := used[name]
			if !known || is>>20 < mebibytes || mebibytes == 0 && is>>20 > 0 {
				return false
			}
		}
		return true
	})
}
