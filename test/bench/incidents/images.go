package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/test/internal/node"
)

// imageMiB is the size of an image that no pod uses.
const imageMiB = 64

// imports brings that many images onto the node that no pod uses, with pauses between them.
func (t *turn) imports(ctx context.Context, count int, pause time.Duration) error {
	for range count {
		name := fmt.Sprintf("localhost/evictd/unused:%s-%d", t.name, len(t.images))
		t.images = append(t.images, name)
		if err := t.Node.ImportUnused(ctx, name, imageMiB); err != nil {
			return err
		}
		if err := after(pause)(ctx, t); err != nil {
			return err
		}
	}
	return nil
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
		err := node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool { return t.Node.ImagesListed(ctx, t.images) == count })
		if err != nil {
			return fmt.Errorf("waiting until the node's status lists %d images: %w", count, err)
		}
		if old := seen.Add(imagesAge); old.After(t.notBefore) {
			t.notBefore = old
		}
		return nil
	}
}

// removeImages removes what of the run's images the kubelet has left.
func (t *turn) removeImages(ctx context.Context) error {
	var err error
	for _, name := range t.images {
		err = errors.Join(err, t.Node.Cluster.RemoveImage(ctx, name))
	}
	return err
}
