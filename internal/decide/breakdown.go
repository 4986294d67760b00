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
	// PartDeleted are files without a name that the pods' processes have open. Not every source
	// knows them; otherwise they are part of [PartOther].
	PartDeleted Part = "Deleted"
	// PartOther is all that belongs to no pod that runs: images, dead containers,
	// hostPath volumes, the host's files, deleted files that the host has open, and
	// what the filesystem keeps for root.
	PartOther Part = "Other"
)

// Parts returns every part of a disk, in the order in which they are reported.
func Parts() []Part { return []Part{PartLayers, PartLogs, PartEmptyDirs, PartDeleted, PartOther} }

// Breakdown says what uses a disk signal, in the signal's unit, or memory, in bytes. A part that is
// not known is missing; nil when nothing may be reported. For a disk, without [PartOther] not every
// pod is known completely, and the parts are lower bounds: what is not known of a pod would
// otherwise count as used outside the pods.
type Breakdown map[Part]int64
