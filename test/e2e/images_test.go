//go:build e2e_all

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// imageMiB is the size of an image's content in these tests. On the disk it uses twice as
// much: the imported layer, whose size the kubelet reports, and its unpacked files.
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
	fits := size*16/100>>20 + 2*imageMiB // MiB that are left before the last image
	left, err := live.DiskAvailable(node.ImageSpace)
	s.must(err)
	images := importImages(s, int((left>>20-fits)/(2*imageMiB)))
	s.until("the node's status lists the images", func(ctx context.Context) bool { return imagesListed(ctx, images) == len(images) })
	images = append(images, importImages(s, 3)...)
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
		dir := s.TempDir()
		name := fmt.Sprintf("localhost/evictd/unused-%s:%s", s.namespace, filepath.Base(dir))
		content, tar := filepath.Join(dir, "content"), filepath.Join(dir, "image.tar")
		random := make([]byte, imageMiB<<20)
		_, _ = rand.Read(random) // never fails
		s.must(os.WriteFile(content, random, 0o600))
		s.must(cluster.WriteImage(tar, name, map[string]string{"/content": content}, cluster.ImageConfig{}))
		s.must(live.Cluster.ImportImage(s.Context(), tar))
		s.Cleanup(func() { s.must(live.Cluster.RemoveImage(context.Background(), name)) })
		names = append(names, name)
	}
	return names
}

// imagesListed returns how many of the images the node's status has.
func imagesListed(ctx context.Context, images []string) int {
	current, err := live.Client.CoreV1().Nodes().Get(ctx, live.Name(), metav1.GetOptions{})
	if err != nil {
		return -1
	}
	found := 0
	for _, i := range current.Status.Images {
		if slices.ContainsFunc(i.Names, func(name string) bool {
			return slices.ContainsFunc(images, func(image string) bool { return strings.HasPrefix(name, image) })
		}) {
			found++
		}
	}
	return found
}
