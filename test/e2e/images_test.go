//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evictd/evictd/test/internal/node"
)

// imageMiB is the size of an image's content. On the disk it is onDisk times as large: as its archive, and unpacked.
const imageMiB, onDisk = 20, 2

// Images that no pod uses fill the disk beside a pod that has written much. Evictd waits for
// the kubelet to remove them, which it does before it evicts pods, and no pod is evicted. Evictd waits
// 60 s for images that the kubelet lists every 30 s: this test is in e2e-all only.
func TestUnusedImagesGoBeforePods(t *testing.T) {
	const imagesFirst = "ImagesFirst" // why evictd holds while unused images cover the deficit
	on(t, oneDisk)
	spaceIsBackAtTheEnd(t, node.DiskSpace)
	s := emptyScene(t)
	policy := node.Policy{Limits: "{}", Extra: "protect: {barePods: false}\n"} // the default thresholds of filesystems
	s.configure(policy)
	written := wrote(s, "written", fileOf("/data/keep", 100))
	held := func(ctx context.Context) float64 {
		return s.held(ctx, node.ImageSpace, imagesFirst) + s.held(ctx, node.DiskSpace, imagesFirst)
	}
	before := held(t.Context())
	size := int64(s.count(t.Context(), "evictd_signal_capacity_bytes", "signal", node.ImageSpace))
	// above returns how many MiB are available beyond that share of the disk.
	above := func(percent int64) int64 {
		left, err := live.DiskAvailable(node.ImageSpace)
		s.must(err)
		return (left - size*percent/100) >> 20
	}
	var images []string
	for above(25) > onDisk*imageMiB {
		images = append(images, importImage(s, imageMiB))
	}
	s.until("the node's status lists the images", func(ctx context.Context) bool { return live.ImagesListed(ctx, images) == len(images) })
	// The kubelet starts again before its line is met: one that starts under pressure does not admit its pods again. It
	// removes only images that it found when it started.
	s.kubeletEvicts(map[string]string{node.NodeMemory: "1Mi", node.ImageSpace: "8%", node.DiskSpace: "5%"})
	s.configure(policy)
	importImage(s, above(11)/onDisk) // below evictd's lines, above the kubelet's
	s.until("evictd waits for the images", func(ctx context.Context) bool { return held(ctx) > before })
	s.stays(&written.Pod)
	importImage(s, above(4)/onDisk) // below the kubelet's
	s.until("the kubelet has removed the images", func(ctx context.Context) bool {
		return !slices.ContainsFunc(images, func(name string) bool {
			there, unread := live.Cluster.HasImage(ctx, name)
			return there || unread != nil
		})
	})
	s.calm(node.ImageSpace)
	s.calm(node.DiskSpace)
	s.wantVictims()
	s.stays(&written.Pod)
	s.kubeletHasNotActed()
}

// importImage imports an image of that size that no pod uses, until the end of the test, and returns its name.
func importImage(s *scene, mebibytes int64) string {
	s.Helper()
	name := fmt.Sprintf("localhost/evictd/unused-%s:%s", s.namespace, filepath.Base(s.TempDir()))
	s.must(live.ImportUnused(s.Context(), name, int(mebibytes)))
	s.Cleanup(func() { s.must(live.Cluster.RemoveImage(context.Background(), name)) })
	return name
}
