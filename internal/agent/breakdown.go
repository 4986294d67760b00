package agent

import (
	"maps"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Part names what a part of a disk is used by.
type Part string

// The parts.
const (
	// PartLayers are the writable layers of the pods' containers.
	PartLayers Part = "layers"
	// PartLogs are the pods' logs.
	PartLogs Part = "logs"
	// PartEmptyDirs are the pods' local volumes: disk emptyDirs, and what little
	// configMaps hold.
	PartEmptyDirs Part = "emptyDirs"
	// PartDeleted are files without a name that the pods' processes have open. Not every
	// source knows them; for one that does not, they are among the others.
	PartDeleted Part = "deleted"
	// PartOther is all that belongs to no pod that runs: images, dead containers,
	// hostPath volumes, the host's files, deleted files that the host has open, and
	// what the filesystem keeps for root.
	PartOther Part = "other"
)

// Parts returns every part, in the order in which they are told.
func Parts() []Part { return []Part{PartLayers, PartLogs, PartEmptyDirs, PartDeleted, PartOther} }

// Breakdown says where what is used of a disk signal is, in the signal's unit. A part
// that is not known is missing; nil where nothing may be said. Without [PartOther] not all
// of each pod is known, and the parts are lower bounds: what is not known of a pod would
// count as somebody else's.
type Breakdown map[Part]int64

// breakdownOf returns where what is used of a disk is.
func breakdownOf(p *pressure.Pressure, all *uses) Breakdown {
	signal := p.Threshold.Signal
	if !signal.OnDisk() {
		return nil
	}
	b, exact, deletedKnown := Breakdown{}, len(all.incomplete) == 0, true
	for i := range all.disk {
		parts := partsOn(signal, &all.disk[i])
		for part, used := range map[Part]usage.FSUse{PartLayers: parts.Layers, PartLogs: parts.Logs, PartEmptyDirs: parts.Volumes} {
			n, known := amountUsed(signal, used)
			b[part] += n
			exact = exact && known
		}
		n, known := amountUsed(signal, parts.Deleted)
		b[PartDeleted] += n
		deletedKnown = deletedKnown && known
	}
	if exact && !deletedKnown {
		delete(b, PartDeleted) // they are among the others
	}
	rest := p.Observed.Capacity - p.Observed.Available
	for _, used := range b {
		rest -= used
	}
	switch {
	case rest < 0:
		return nil // the pods' figures are older than the disk's
	case exact:
		b[PartOther] = rest
	default:
		// That it is at least nothing says nothing.
		maps.DeleteFunc(b, func(_ Part, used int64) bool { return used == 0 })
	}
	return b
}

// partsOn returns what a pod's use of the signal's filesystem is made of.
func partsOn(signal pressure.Signal, u *usage.DiskUse) usage.Parts {
	if onImageFS(signal, u) {
		return u.OnImageFS
	}
	return u.OnNodeFS
}

// filesystemOf returns what a pod uses of the signal's filesystem.
func filesystemOf(signal pressure.Signal, u *usage.DiskUse) usage.FSUse {
	if onImageFS(signal, u) {
		return u.ImageFS
	}
	return u.NodeFS
}

// onImageFS reports whether a disk signal is about imagefs. Containerfs is where the writable
// layers are.
func onImageFS(signal pressure.Signal, u *usage.DiskUse) bool {
	filesystem := signal.Filesystem()
	return filesystem == pressure.ImageFS || filesystem == pressure.ContainerFS && !u.SplitLayers
}

// amountUsed returns bytes or inodes, as the signal counts, and whether they are exact.
func amountUsed(signal pressure.Signal, used usage.FSUse) (amount int64, exact bool) {
	if signal.Kind() == pressure.InodeKind {
		return used.Inodes, used.InodesKnown
	}
	return used.Bytes, used.BytesKnown
}
