package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// imageMiB is the size of an image that no pod uses. On the disk it uses twice as much: the
// imported layer, whose size the kubelet reports, and its unpacked files.
const imageMiB = 64

// imports brings that many images onto the node that no pod uses, with pauses between them.
func (t *turn) imports(ctx context.Context, count int, pause time.Duration) error {
	for range count {
		name := fmt.Sprintf("localhost/evictd/unused:%s-%d", t.name, len(t.images))
		t.images = append(t.images, name)
		if err := t.importsOne(ctx, name); err != nil {
			return err
		}
		if err := after(pause)(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) importsOne(ctx context.Context, name string) error {
	content, tar := filepath.Join(t.dir, "content"), filepath.Join(t.dir, "image.tar")
	random := make([]byte, imageMiB<<20)
	_, _ = rand.Read(random) // never fails
	if err := os.WriteFile(content, random, 0o600); err != nil {
		return fmt.Errorf("making an image: %w", err)
	}
	if err := cluster.WriteImage(tar, name, map[string]string{"/content": content}, cluster.ImageConfig{}); err != nil {
		return err
	}
	err := t.Node.Cluster.ImportImage(ctx, tar)
	return errors.Join(err, os.Remove(content), os.Remove(tar))
}

// imagesAge is the kubelet's default imageMinimumGCAge, and some seconds: it counts from when it has
// first seen an image.
const imagesAge = 2*time.Minute + 5*time.Second

// hadImages brings images onto the node, and lets the incident begin when they are old enough for
// the kubelet to remove them. It looks for new images every five minutes, and when it starts.
func hadImages(count int) func(context.Context, *turn) error {
	return func(ctx context.Context, t *turn) error {
		if err := t.imports(ctx, count, 0); err != nil {
			return err
		}
		if err := t.restart(ctx, "kubelet"); err != nil {
			return err
		}
		seen := time.Now()
		err := node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool { return t.imagesListed(ctx) == count })
		if err != nil {
			return fmt.Errorf("waiting until the node's status lists %d images: %w", count, err)
		}
		t.notBefore = seen.Add(imagesAge)
		return nil
	}
}

// imagesListed returns how many of the run's images the node's status has.
func (t *turn) imagesListed(ctx context.Context) int {
	current, err := t.Node.Client.CoreV1().Nodes().Get(ctx, t.Node.Name(), metav1.GetOptions{})
	if err != nil {
		return -1
	}
	found := 0
	for _, image := range current.Status.Images {
		if slices.ContainsFunc(image.Names, func(name string) bool { return slices.Contains(t.images, strings.TrimPrefix(name, "docker.io/")) }) {
			found++
		}
	}
	return found
}

// removeImages removes what of the run's images the kubelet has left.
func (t *turn) removeImages(ctx context.Context) error {
	var err error
	for _, name := range t.images {
		err = errors.Join(err, t.Node.Cluster.RemoveImage(ctx, name))
	}
	return err
}
