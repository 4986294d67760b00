package main

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/usage"
)

// nodeDisk measures the pods' disk usage by their files on the node. It is opened at the
// first measurement, and again when the configuration changes its limits.
type nodeDisk struct {
	hostRoot string
	bounds   config.Disk
	opened   *usage.NodeDisk
}

func (n *nodeDisk) measure(ctx context.Context, c *config.EvictdConfiguration, pods []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	if err := n.open(c); err != nil {
		return nil, err
	}
	known := make([]usage.NodePod, 0, len(pods))
	for _, pod := range pods {
		known = append(known, usage.NodePod{
			UID: pod.CgroupUID, Namespace: pod.Namespace, Name: pod.Name,
			Containers: pod.RunningContainers,
		})
	}
	measured, err := n.opened.Measure(ctx, time.Now(), known)
	if err != nil {
		return nil, fmt.Errorf("looking at the pods' files: %w", err)
	}
	uses := make(map[string]usage.DiskUse, len(measured))
	for _, pod := range pods {
		if use, found := measured[pod.CgroupUID]; found {
			uses[pod.UID] = use
		}
	}
	return uses, nil
}

func (n *nodeDisk) open(c *config.EvictdConfiguration) error {
	if n.opened != nil && n.bounds == c.Disk {
		return nil
	}
	opened, err := openNodeDisk(n.hostRoot, c)
	if err != nil {
		return err
	}
	n.close()
	n.opened, n.bounds = opened, c.Disk
	return nil
}

// close also discards the previous figures.
func (n *nodeDisk) close() {
	if n.opened != nil {
		_ = n.opened.Close() // only directories that were read
		n.opened = nil
	}
}

func openNodeDisk(hostRoot string, c *config.EvictdConfiguration) (*usage.NodeDisk, error) {
	opened, err := usage.OpenNodeDisk(nodeDiskOptions(hostRoot, c))
	if err != nil {
		return nil, fmt.Errorf("preparing to look at the pods' files (disk.source: node): %w", err)
	}
	return opened, nil
}

func nodeDiskOptions(hostRoot string, c *config.EvictdConfiguration) usage.NodeDiskOptions {
	return usage.NodeDiskOptions{HostRoot: hostRoot, Workers: int(c.Disk.Workers), Cores: c.WalkCores()}
}

// checkDisk returns why the configured source cannot work here. It cannot check the Summary
// API's response beforehand.
func checkDisk(hostRoot string, c *config.EvictdConfiguration) error {
	if c.Disk.Source != config.DiskNode {
		return nil
	}
	opened, err := openNodeDisk(hostRoot, c)
	if err != nil {
		return err
	}
	return opened.Close()
}
