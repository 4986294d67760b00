// Package measuretest makes measurements of disks for tests.
package measuretest

import "github.com/evictd/evictd/pkg/usage"

// DiskUse is a pod that uses so much of each filesystem.
func DiskUse(nodeBytes, nodeInodes, imageBytes, imageInodes int64) usage.DiskUse {
	return usage.DiskUse{
		NodeFS:  usage.FSUse{Bytes: nodeBytes, BytesKnown: true, Inodes: nodeInodes, InodesKnown: true},
		ImageFS: usage.FSUse{Bytes: imageBytes, BytesKnown: true, Inodes: imageInodes, InodesKnown: true},
	}
}

// FSUse is so many bytes, and a tenth as many inodes.
func FSUse(n int64) usage.FSUse {
	return usage.FSUse{Bytes: n, BytesKnown: true, Inodes: n / 10, InodesKnown: true}
}

// PartsOf is a pod with these parts, from a source that knows deleted files. Dedicated says that
// layers have a filesystem of their own.
func PartsOf(dedicated bool, layers, logs, volumes, deleted int64) usage.DiskUse {
	if dedicated {
		return Split(PartsFrom(0, logs, volumes, deleted), PartsFrom(layers, 0, 0, 0))
	}
	all := PartsFrom(layers, logs, volumes, deleted)
	return Split(all, all)
}

// PartsFrom are these parts of one filesystem.
func PartsFrom(layers, logs, volumes, deleted int64) usage.Parts {
	return usage.Parts{Layers: FSUse(layers), Logs: FSUse(logs), Volumes: FSUse(volumes), Deleted: FSUse(deleted)}
}

// Split is a pod with these parts on each filesystem.
func Split(nodeFS, imageFS usage.Parts) usage.DiskUse {
	sum := func(p usage.Parts) usage.FSUse {
		return FSUse(p.Layers.Bytes + p.Logs.Bytes + p.Volumes.Bytes + p.Deleted.Bytes)
	}
	return usage.DiskUse{NodeFS: sum(nodeFS), ImageFS: sum(imageFS), OnNodeFS: nodeFS, OnImageFS: imageFS}
}
