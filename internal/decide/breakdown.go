package decide

// Part names what a part of a disk is used by, or of memory: those are hostinfo's.
type Part string

// The parts of a disk.
const (
	// PartLayers are the writable layers of the pods' containers.
	PartLayers Part = "Layers"
	// PartLogs are the pods' logs.
	PartLogs Part = "Logs"
	// PartEmptyDirs are the pods' local volumes: disk emptyDirs, and what little
	// configMaps hold.
	PartEmptyDirs Part = "EmptyDirs"
	// PartDeleted are files without a name that the pods' processes have open. Not every
	// source knows them; for one that does not, they are among the others.
	PartDeleted Part = "Deleted"
	// PartOther is all that belongs to no pod that runs: images, dead containers,
	// hostPath volumes, the host's files, deleted files that the host has open, and
	// what the filesystem keeps for root.
	PartOther Part = "Other"
)

// Parts returns every part of a disk, in the order in which they are told.
func Parts() []Part { return []Part{PartLayers, PartLogs, PartEmptyDirs, PartDeleted, PartOther} }

// Breakdown says where what is used of a disk signal is, in the signal's unit, or of memory, in
// bytes. A part
// that is not known is missing; nil where nothing may be said. Of a disk, without [PartOther] not all
// of each pod is known, and the parts are lower bounds: what is not known of a pod would
// count as somebody else's.
type Breakdown map[Part]int64
