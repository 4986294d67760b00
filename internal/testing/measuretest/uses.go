// Package measuretest makes measurements of disks for tests.
package measuretest

import "github.com/evictd/evictd/pkg/usage"

// DiskUse is a pod that uses so much of each filesystem, all of it in writable layers.
func DiskUse(nodeBytes, nodeInodes, imageBytes, imageInodes int64) usage.DiskUse {
	use := PartsOf(false, 0, 0, 0, 0)
	use.NodeFS[usage.Layers].Bytes, use.NodeFS[usage.Layers].Inodes = nodeBytes, nodeInodes
	use.ImageFS[usage.Layers].Bytes, use.ImageFS[usage.Layers].Inodes = imageBytes, imageInodes
	return use
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
	return usage.Parts{FSUse(layers), FSUse(logs), FSUse(volumes), FSUse(deleted)}
}

// Split is a pod with these parts on each filesystem.
func Split(nodeFS, imageFS usage.Parts) usage.DiskUse {
	return usage.DiskUse{NodeFS: nodeFS, ImageFS: imageFS}
}
