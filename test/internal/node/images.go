package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
)

// ImportUnused brings an image of that many MiB onto the node that no pod uses. On the disk it uses twice as much: the
// imported layer, whose size the kubelet reports, and its unpacked files.
func (n *Node) ImportUnused(ctx context.Context, name string, mebibytes int) (err error) {
	dir, err := os.MkdirTemp("", "evictd-image-")
	if err != nil {
		return fmt.Errorf("making an image: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	content, tar := filepath.Join(dir, "content"), filepath.Join(dir, "image.tar")
	random := make([]byte, mebibytes<<20)
	_, _ = rand.Read(random) // never fails
	if err = os.WriteFile(content, random, 0o600); err != nil {
		return fmt.Errorf("making an image: %w", err)
	}
	if err = cluster.WriteImage(tar, name, map[string]string{"/content": content}, cluster.ImageConfig{}); err != nil {
		return err
	}
	return n.Cluster.ImportImage(ctx, tar)
}

// ImagesListed returns how many of the images the node's status has; -1 while it cannot be read.
func (n *Node) ImagesListed(ctx context.Context, images []string) int {
	current, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
	if err != nil {
		return -1
	}
	found := 0
	for _, image := range current.Status.Images {
		if slices.ContainsFunc(image.Names, func(name string) bool { return slices.Contains(images, strings.TrimPrefix(name, "docker.io/")) }) {
			found++
		}
	}
	return found
}
