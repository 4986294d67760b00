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

// imageMiB is the size of an image's content in these tests.
const imageMiB = 20

// Images that no pod uses fill the disk beside a pod that has written much. Evictd waits for
// the kubelet to remove them, which it does before it evicts pods, and no pod is evicted. Evictd waits
// 60 s for images that the kubelet lists every 30 s: this test is in e2e-all only.
func TestUnusedImagesGoBeforePods(t *testing.T) {
	const imagesFirst = "ImagesFirst" // why evictd holds while unused images cover the deficit
	on(t, oneDisk)
	spaceIsBackAtTheEnd(t, node.DiskSpace)
	s := emptyScene(t)
	s.configure(node.Policy{Limits: "{}", Extra: "protect: {barePods: false}\n"}) // the default thresholds of filesystems
	written := wrote(s, "written", fileOf("/data/keep", 100))
	held := func(ctx context.Context) float64 {
		return s.held(ctx, node.ImageSpace, imagesFirst) + s.held(ctx, node.DiskSpace, imagesFirst)
	}
	before := held(t.Context())
	size := int64(s.count(t.Context(), "evictd_signal_capacity_bytes", "signal", node.ImageSpace))
	// imports brings as many images as leave just more than that share of the disk, and perhaps one more.
	imports := func(percent int64, more int) (names []string) {
		left, err := live.DiskAvailable(node.ImageSpace)
		s.must(err)
		return importImages(s, int((left-size*percent/100)/(2*imageMiB<<20))+more)
	}
	images := imports(25, 0)
	s.until("the node's status lists the images", func(ctx context.Context) bool { return live.ImagesListed(ctx, images) == len(images) })
	images = append(images, imports(15, 1)...) // less than evictd's line and the kubelet's, and no less than half of that
	s.until("evictd waits for the images", func(ctx context.Context) bool { return held(ctx) > before })
	s.stays(&written.Pod)
	s.kubeletEvicts(map[string]string{node.NodeMemory: "1Mi", node.ImageSpace: "15%", node.DiskSpace: "10%"})
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

// importImages imports that many images that no pod uses, and returns their names.
func importImages(s *scene, count int) []string {
	s.Helper()
	var names []string
	for range count {
		name := fmt.Sprintf("localhost/evictd/unused-%s:%s", s.namespace, filepath.Base(s.TempDir()))
		s.must(live.ImportUnused(s.Context(), name, imageMiB))
		s.Cleanup(func() { s.must(live.Cluster.RemoveImage(context.Background(), name)) })
		names = append(names, name)
	}
	return names
}
