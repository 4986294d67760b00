package main

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Unused returns the size of images that no pod of the node uses, from the node's status. It reads the node once,
// and may be called beside [disk.Measure].
func (d *disk) Unused(ctx context.Context, pods []*nodepods.Pod) (measure.UnusedImages, error) {
	node, err := d.clients.getNode(ctx, d.flags.nodeName)
	if err != nil {
		return measure.UnusedImages{}, err
	}
	bytes, err := nodepods.UnusedImages(node.Status.Images, pods)
	if err != nil {
		return measure.UnusedImages{}, fmt.Errorf("counting the images of node %s: %w", node.Name, err)
	}
	dedicated, err := d.dedicatedImageFS(d.inForce())
	if err != nil {
		return measure.UnusedImages{}, fmt.Errorf("finding the filesystem of images: %w", err)
	}
	return measure.UnusedImages{Bytes: bytes, OnNodeFS: !dedicated}, nil
}

// imageReclaimOf returns when the kubelet removes unused images, by its configuration; nil
// is an unknown configuration, for which the kubelet's defaults apply.
func imageReclaimOf(kubelet *kubeletconfig.Configuration) measure.ImageReclaim {
	if kubelet == nil {
		kubelet = kubeletconfig.Default()
	}
	reclaim := measure.ImageReclaim{Collection: kubelet.ImageCollection}
	for i := range kubelet.Thresholds {
		t := &kubelet.Thresholds[i]
		switch {
		case !t.Hard:
		case t.Signal == pressure.NodeFSAvailable:
			reclaim.NodeFS = t.Quantity
		case t.Signal == pressure.ImageFSAvailable:
			reclaim.ImageFS = t.Quantity
		}
	}
	return reclaim
}
