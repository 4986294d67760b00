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
	s := newImageScene(t)
	written := wrote(s, "written", fileOf("/data/keep", 100))
	held := s.held(t.Context(), node.ImageSpace, imagesFirst) + s.held(t.Context(), node.DiskSpace, imagesFirst)
	fits := diskSize(s)*16/100>>20 + 2*imageMiB // MiB that are left before the last image
	images := importImages(s, int((spaceLeft(s)>>20-fits)/(2*imageMiB)))
	kubeletListsImages(s, images)
	images = append(images, importImages(s, 3)...)
	s.until("evictd waits for the images", func(ctx context.Context) bool {
		return s.held(ctx, node.ImageSpace, imagesFirst)+s.held(ctx, node.DiskSpace, imagesFirst) > held
	})
	s.stays(&written.Pod)
	s.kubeletEvicts(map[string]string{node.NodeMemory: "1Mi", node.ImageSpace: "15%", node.DiskSpace: "10%"})
	s.until("the kubelet has removed the images", func(ctx context.Context) bool { return imagesThere(ctx, s, images) == 0 })
	s.calm(node.ImageSpace)
	s.calm(node.DiskSpace)
	s.wantVictims()
	s.stays(&written.Pod)
	s.kubeletHasNotActed()
}

// A pod fills the disk beside images that no pod uses, which hold less than the deficit: the
// pod is evicted, and its neighbor stays.
func TestPodThatFillsTheImagesDiskGoes(t *testing.T) {
	s := newImageScene(t)
	modest, images := modestWriter(s), importImages(s, 1)
	kubeletListsImages(s, images)
	// So much that the deficit to the higher line exceeds the image's size on the disk.
	filler := wrote(s, "filler", fileOf("/data/fill", spaceLeft(s)>>20-diskSize(s)*16/100>>20+2*imageMiB+15))
	d := s.gone(&filler.Pod)
	if d.Verb != "Acted" || len(d.Attempts) != 1 || d.Attempts[0].Outcome != "Evicted" {
		t.Errorf("the decision: %+v", d)
	}
	s.calm(node.ImageSpace)
	s.calm(node.DiskSpace)
	s.wantVictims(&filler.Pod)
	s.stays(&modest.Pod)
}

// imagesFirst is why evictd holds while unused images cover the deficit.
const imagesFirst = "ImagesFirst"

// newImageScene applies the default thresholds of filesystems on a node with one small
// filesystem. At the end it waits until the space is reclaimed.
func newImageScene(t *testing.T) *scene {
	t.Helper()
	on(t, oneDisk)
	spaceIsBackAtTheEnd(t, node.DiskSpace)
	s := emptyScene(t)
	s.configure(node.Policy{Limits: "{}", Extra: "protect: {barePods: false}\n"})
	return s
}

// diskSize returns the size of the node's filesystem, in bytes, and left how much of it is
// available.
func diskSize(s *scene) int64 {
	s.Helper()
	return int64(s.count(s.Context(), "evictd_signal_capacity_bytes", "signal", node.ImageSpace))
}

func spaceLeft(s *scene) int64 {
	s.Helper()
	available, err := live.DiskAvailable(node.ImageSpace)
	s.must(err)
	return available
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

// kubeletListsImages waits until the node's status has the images. The kubelet looks for new
// ones every 30 seconds.
func kubeletListsImages(s *scene, images []string) {
	s.Helper()
	s.until("the node's status lists the images", func(ctx context.Context) bool { return imagesListed(ctx, s, images) == len(images) })
}

// imagesThere returns how many of the images the node has.
func imagesThere(ctx context.Context, s *scene, images []string) int {
	s.Helper()
	found := 0
	for _, name := range images {
		there, err := live.Cluster.HasImage(ctx, name)
		if err != nil {
			s.Log(err)
			return -1
		}
		if there {
			found++
		}
	}
	return found
}

// imagesListed returns how many of the images the node's status has.
func imagesListed(ctx context.Context, s *scene, images []string) int {
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
