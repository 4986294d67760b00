package measure

import (
	"maps"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Breakdown returns where what is used of a disk is; nil for other signals.
func Breakdown(p *pressure.Pressure, uses *decide.Uses) decide.Breakdown {
	signal := p.Threshold.Signal
	if !signal.OnDisk() {
		return nil
	}
	b, exact, deletedKnown := decide.Breakdown{}, len(uses.Incomplete) == 0, true
	for i := range uses.Disk {
		parts := partsOn(signal, &uses.Disk[i])
		for part, used := range map[decide.Part]usage.FSUse{decide.PartLayers: parts.Layers, decide.PartLogs: parts.Logs, decide.PartEmptyDirs: parts.Volumes} {
			n, known := amountUsed(signal, used)
			b[part] += n
			exact = exact && known
		}
		n, known := amountUsed(signal, parts.Deleted)
		b[decide.PartDeleted] += n
		deletedKnown = deletedKnown && known
	}
	if exact && !deletedKnown {
		delete(b, decide.PartDeleted) // they are among the others
	}
	rest := p.Observed.Capacity - p.Observed.Available
	for _, used := range b {
		rest -= used
	}
	switch {
	case rest < 0:
		return nil // the pods' figures are older than the disk's
	case exact:
		b[decide.PartOther] = rest
	default:
		// A lower bound of zero carries no information.
		maps.DeleteFunc(b, func(_ decide.Part, used int64) bool { return used == 0 })
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
