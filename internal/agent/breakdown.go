package agent

import (
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
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
// that is not known is missing; nil where nothing is known.
type Breakdown map[Part]int64

// breakdownOf returns where what is used of a disk is; nil unless the use of every pod is
// known: what is not known of a pod would count as somebody else's.
func breakdownOf(p *pressure.Pressure, all *uses) Breakdown {
	signal := p.Threshold.Signal
	if !onDisk(signal) {
		return nil
	}
	b, rest := Breakdown{}, p.Observed.Capacity-p.Observed.Available
	deletedKnown := true
	for i := range all.disk {
		u := &all.disk[i]
		layers, logs, volumes := partsOn(signal, u)
		named, known := int64(0), true
		for part, used := range map[Part]usage.FSUse{PartLayers: layers, PartLogs: logs, PartEmptyDirs: volumes} {
			n, exact := amountUsed(signal, used)
			b[part] += n
			named, known = named+n, known && exact
		}
		total, exact := amountUsed(signal, filesystemOf(signal, u))
		if !known || !exact {
			return nil
		}
		if _, told := amountUsed(signal, u.Deleted); !told {
			deletedKnown = false
		}
		b[PartDeleted] += max(0, total-named)
		rest -= total
	}
	if rest < 0 {
		return nil // the pods' figures are older than the disk's
	}
	if !deletedKnown {
		delete(b, PartDeleted)
	}
	b[PartOther] = rest
	return b
}

// partsOn returns a pod's parts on the signal's filesystem. Where both filesystems have
// the same figures they are one, and everything is on it.
func partsOn(signal pressure.Signal, u *usage.DiskUse) (layers, logs, volumes usage.FSUse) {
	none := usage.FSUse{BytesKnown: true, InodesKnown: true}
	switch {
	case u.NodeFS == u.ImageFS:
		return u.Layers, u.Logs, u.Volumes
	case onImageFS(signal):
		return u.Layers, none, none
	default:
		return none, u.Logs, u.Volumes
	}
}

// filesystemOf returns what a pod uses of the signal's filesystem.
func filesystemOf(signal pressure.Signal, u *usage.DiskUse) usage.FSUse {
	if onImageFS(signal) {
		return u.ImageFS
	}
	return u.NodeFS
}

func onImageFS(signal pressure.Signal) bool {
	switch signal {
	case pressure.ImageFSAvailable, pressure.ImageFSInodesFree,
		pressure.ContainerFSAvailable, pressure.ContainerFSInodesFree:
		return true
	default:
		return false
	}
}

// amountUsed returns bytes or inodes, as the signal counts, and whether they are exact.
func amountUsed(signal pressure.Signal, used usage.FSUse) (amount int64, exact bool) {
	if resourceOf(signal) == rank.Inodes {
		return used.Inodes, used.InodesKnown
	}
	return used.Bytes, used.BytesKnown
}
